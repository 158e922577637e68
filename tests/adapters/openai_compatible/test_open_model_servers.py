"""Requests and answers of vLLM and SGLang, where they differ from OpenAI."""

import json

import msgspec
import openai
import pytest
from msgspec import Raw

from strowger_gateway.adapters.base import Adapter, Endpoint
from strowger_gateway.adapters.capabilities import unsupported
from strowger_gateway.adapters.openai_compatible.sglang import SglangAdapter
from strowger_gateway.adapters.openai_compatible.vllm import VllmAdapter
from strowger_gateway.adapters.testing import request_for, translate
from strowger_gateway.schemas.errors import UpstreamFailed, UpstreamRefused, UpstreamRejected
from strowger_gateway.schemas.events import Event, Finished, OpaqueDelta, ReasoningDelta, Started
from strowger_gateway.schemas.messages import AudioPart, Message, TextPart, Thought
from strowger_gateway.schemas.requests import ChatRequest, CompletionRequest, EmbeddingsRequest
from strowger_gateway.schemas.sampling import Sampling
from strowger_gateway.schemas.tasks.task import Unsampled
from tests.adapters.chats import folded
from tests.adapters.openai.openai_doubles import CHAT, HELLO, WHOLE_CHAT, body, sampled
from tests.adapters.traffic import fixture
from tests.stand_ins.provider import answers, provider

pytestmark = pytest.mark.anyio

VLLM = VllmAdapter(Endpoint(name="gpu", base_url="http://gpu.test:8000/v1"))
SGLANG = SglangAdapter(Endpoint(name="gpu", base_url="http://gpu.test:30000/v1"))
BOTH = pytest.mark.parametrize("adapter", [VLLM, SGLANG], ids=["vllm", "sglang"])


def answer(adapter: Adapter, name: str, **extra: Raw) -> list[Event]:
    """Return the events of a fixture, for a request with these fields of the engine."""
    case = fixture(name)
    request = request_for(case)
    assert not isinstance(request, Unsampled)
    return translate(adapter, msgspec.structs.replace(request, extra=extra), [case.body])


@BOTH
def test_the_engines_sampling_goes_out_under_its_own_names(adapter: Adapter) -> None:
    fields = {"top_k": 5, "min_p": 0.05, "repetition_penalty": 1.5, "stop_token_ids": (3,)}

    sent = body(adapter, sampled(**fields, ignore_eos=True, min_tokens=2))

    assert {name: sent[name] for name in fields} == {**fields, "stop_token_ids": [3]}
    assert (sent["ignore_eos"], sent["min_tokens"]) == (True, 2)


@BOTH
def test_what_the_engine_would_ignore_is_reported(adapter: Adapter) -> None:
    request = msgspec.structs.replace(
        sampled(best_of=2, no_repeat_ngram_size=3),
        user="someone",
        metadata=Raw(b'{"a":"b"}'),
        extra={"store": Raw(b"true")},
    )
    completion = CompletionRequest(model="m", prompts=("x",), suffix="z")

    found = {one.field for one in unsupported(request, adapter.supports)}

    assert found == {"best_of", "no_repeat_ngram_size", "user", "metadata", "store"}
    assert [one.field for one in unsupported(completion, adapter.supports)] == ["suffix"]


@pytest.mark.parametrize(
    ("adapter", "name"),
    [
        (VLLM, "guided_json"),
        (VLLM, "structured_outputs"),
        (VLLM, "chat_template_kwargs"),
        (SGLANG, "regex"),
        (SGLANG, "ebnf"),
    ],
)
def test_the_engines_own_constraints_are_forwarded(adapter: Adapter, name: str) -> None:
    request = msgspec.structs.replace(WHOLE_CHAT, extra={name: Raw(b'{"a":1}')})

    assert not unsupported(request, adapter.supports)
    assert body(adapter, request)[name] == {"a": 1}


@pytest.mark.parametrize(
    ("adapter", "priority", "sent"),
    [(VLLM, 1, -4), (VLLM, 4, -1), (VLLM, 5, None), (SGLANG, 1, 4), (SGLANG, 5, None)],
)
def test_the_first_of_five_priorities_is_the_first_of_the_engine(
    adapter: Adapter, priority: int, sent: int | None
) -> None:
    request = msgspec.structs.replace(WHOLE_CHAT, priority=priority)

    assert body(adapter, request).get("priority") == sent


@BOTH
def test_usage_is_requested_only_in_streams_and_other_options_stay(adapter: Adapter) -> None:
    own = {"stream_options": Raw(b'{"continuous_usage_stats":true}')}
    optioned = msgspec.structs.replace(CHAT, extra=own)

    assert "stream_options" not in body(adapter, WHOLE_CHAT)
    assert body(adapter, CHAT)["stream_options"] == {"include_usage": True}
    assert body(adapter, optioned)["stream_options"] == {
        "continuous_usage_stats": True,
        "include_usage": True,
    }


@BOTH
def test_tokens_go_out_as_prompts_and_inputs(adapter: Adapter) -> None:
    completion = CompletionRequest(model="m", prompts=((1, 2), (3,)), batch=True)
    embeddings = EmbeddingsRequest(model="m", inputs=((1, 2),), dimensions=8)

    sent = msgspec.json.decode(adapter.encode(embeddings, "m1").body)

    assert body(adapter, completion)["prompt"] == [[1, 2], [3]]
    assert sent == {"model": "m1", "input": [1, 2], "dimensions": 8}


@BOTH
def test_thinking_in_blocks_without_text_is_sent_as_one_text(adapter: Adapter) -> None:
    raw = Raw(b'{"role":"assistant","content":"Yes.","reasoning_details":[]}')
    turn = Message(
        role="assistant",
        content="Yes.",
        thoughts=(Thought(text="a"), Thought(text="b"), Thought(data="hidden")),
        raw=raw,
    )
    said = Message(role="assistant", content="Yes.", reasoning="r", raw=raw)

    def message(one: Message) -> dict[str, object]:
        sent = adapter.encode(ChatRequest(model="m", messages=(HELLO, one)), "m1").body
        return msgspec.json.decode(sent)["messages"][1]

    assert message(turn)["reasoning_content"] == "ab"
    assert message(said) == msgspec.json.decode(raw)


def test_a_stream_has_token_ids_on_request() -> None:
    asked = answer(VLLM, "vllm/chat-stream-token-ids", return_token_ids=Raw(b"true"))

    told = [
        bytes(one.fields["(choice).token_ids"]) for one in asked if isinstance(one, OpaqueDelta)
    ]
    started = asked[0]
    assert told == [b"[7,8]", b"[9]", b"[10]"]
    assert isinstance(started, Started)
    assert bytes(started.extra["prompt_token_ids"]) == b"[1,2,3]"
    assert ReasoningDelta(text="Hm.") in asked
    assert Finished(reason="stop", stop_match=151645) in asked


def test_log_probabilities_of_a_prompt_come_with_the_choice() -> None:
    name = "vllm/completions-prompt-logprobs"

    (choice,) = folded(answer(VLLM, name, prompt_logprobs=Raw(b"1"))).choices

    assert choice.text == " there"
    assert b'"logprob":-0.5' in bytes(choice.opaque["(choice).prompt_logprobs"])


@pytest.mark.parametrize(
    ("adapter", "name", "kind", "told"),
    [
        (VLLM, "vllm/error-400-flat", UpstreamRejected, "top_p must be in"),
        (VLLM, "vllm/error-404-model", UpstreamRefused, "does not exist"),
        (SGLANG, "sglang/error-400", UpstreamRejected, "top_p must be in"),
    ],
)
def test_errors_are_read_in_both_envelopes(
    adapter: Adapter, name: str, kind: type[Exception], told: str
) -> None:
    case = fixture(name)

    error = adapter.error(case.status, case.headers, case.body)

    assert isinstance(error, kind)
    assert told in error.message


@pytest.mark.parametrize(
    ("adapter", "name"),
    [(VLLM, "vllm/error-inside-stream"), (SGLANG, "sglang/chat-aborted-error")],
)
def test_an_answer_that_was_given_up_is_a_failure(adapter: Adapter, name: str) -> None:
    with pytest.raises(UpstreamFailed):
        answer(adapter, name)


def test_sglang_calls_tools_after_thinking_and_reports_its_counts() -> None:
    found = folded(answer(SGLANG, "sglang/chat-stream-reasoning-tools"))

    (choice,) = found.choices
    assert choice.reasoning == "Look."
    assert [(one.id, one.name, one.arguments) for one in choice.tool_calls] == [
        ("call_a", "now", "{}"),
        ("call_b", "weather", '{"city":"Bern"}'),
    ]
    assert found.usage is not None
    assert (found.usage.cached_tokens, found.usage.reasoning_tokens) == (4, 5)


def test_sglang_reports_what_stopped_the_answer() -> None:
    found = answer(SGLANG, "sglang/chat-matched-stop")

    assert Finished(reason="stop", stop_match="END") in found


async def test_openais_client_and_the_adapter_send_vllm_the_same() -> None:
    extra = {"top_k": 5, "min_p": 0.1, "structured_outputs": {"choice": ["a", "b"]}}
    async with provider(answers) as server:
        async with openai.AsyncOpenAI(base_url=server.base_url, api_key="k") as sdk:
            await sdk.chat.completions.create(
                model="m1",
                messages=[{"role": "user", "content": "hello"}],
                temperature=0.5,
                max_tokens=9,
                extra_body=extra,
            )

    request = msgspec.structs.replace(
        WHOLE_CHAT,
        sampling=Sampling(temperature=0.5, max_tokens=9, top_k=5, min_p=0.1),
        extra={"structured_outputs": Raw(b'{"choice":["a","b"]}')},
    )
    (theirs,) = server.requests
    sent = VLLM.encode(request, "m1")
    assert sent.target == theirs.path
    assert json.loads(sent.body) == theirs.json


@pytest.mark.parametrize(("form", "kind"), [("wav", "wav"), ("mp3", "mpeg")])
def test_audio_goes_to_sglang_in_the_form_that_every_version_reads(form: str, kind: str) -> None:
    said = {"type": "input_audio", "input_audio": {"data": "AAAA", "format": form}}
    fields = {"role": "user", "name": "Ann", "content": [{"type": "text", "text": "hear"}, said]}
    part = AudioPart(data="AAAA", format=form, raw=Raw(msgspec.json.encode(said)))
    spoken = Message(
        role="user",
        name="Ann",
        content=(TextPart(text="hear"), part),
        raw=Raw(msgspec.json.encode(fields)),
    )

    body = SGLANG.encode(ChatRequest(model="m", messages=(spoken,)), "m").body

    assert msgspec.json.decode(body)["messages"] == [
        {
            "role": "user",
            "name": "Ann",
            "content": [
                {"type": "text", "text": "hear"},
                {"type": "audio_url", "audio_url": {"url": f"data:audio/{kind};base64,AAAA"}},
            ],
        }
    ]
