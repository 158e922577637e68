"""Requests and answers of Text Generation Inference, compared with its makers' client."""

import json

import msgspec
import pytest
from huggingface_hub import AsyncInferenceClient
from msgspec import Raw

from strowger_gateway.adapters.base import Endpoint
from strowger_gateway.adapters.capabilities import unsupported
from strowger_gateway.adapters.testing import request_for, translate
from strowger_gateway.adapters.tgi.adapter import TgiAdapter
from strowger_gateway.schemas.errors import (
    InvalidRequest,
    UpstreamBroken,
    UpstreamBusy,
    UpstreamFailed,
    UpstreamRejected,
)
from strowger_gateway.schemas.events import Event, Finished, Started, TextDelta, Usage
from strowger_gateway.schemas.messages import ResponseFormat
from strowger_gateway.schemas.requests import ChatRequest, CompletionRequest
from strowger_gateway.schemas.sampling import Sampling
from strowger_gateway.schemas.tasks.task import Unsampled
from tests.adapters.chats import folded
from tests.adapters.openai.openai_doubles import CHAT, HELLO, body, sampled
from tests.adapters.traffic import fixture
from tests.stand_ins.provider import Answer, Received, provider

pytestmark = pytest.mark.anyio

TGI = TgiAdapter(Endpoint(name="tgi", base_url="http://gpu.test:8080/v1"))


def answer(name: str) -> list[Event]:
    case = fixture(f"tgi/{name}")
    request = request_for(case)
    assert not isinstance(request, Unsampled)
    return translate(TGI, request, [case.body])


def generated(**fields: object) -> object:
    """Return the parameters sent for a completion with this sampling."""
    sampling = msgspec.structs.replace(Sampling(), **fields)
    sent = TGI.encode(CompletionRequest(model="m", prompts=("x",), sampling=sampling), "m").body
    return msgspec.json.decode(sent)["parameters"]


def test_text_goes_to_the_native_routes_and_chat_to_openais() -> None:
    whole = CompletionRequest(model="m", prompts=("x",), sampling=Sampling(max_tokens=5))

    outbound = TGI.encode(whole, "m")

    assert outbound.target == "/generate"
    assert msgspec.json.decode(outbound.body) == {
        "inputs": "x",
        "parameters": {"details": True, "max_new_tokens": 5},
    }
    streamed = msgspec.structs.replace(whole, stream=True)
    assert TGI.encode(streamed, "m").target == "/generate_stream"
    assert TGI.encode(CHAT, "m").target == "/v1/chat/completions"


@pytest.mark.parametrize(
    ("fields", "sent"),
    [
        ({"temperature": 0.0, "top_p": 0.5, "top_k": 5}, {"do_sample": False}),
        ({"do_sample": False, "top_k": 5, "seed": 1}, {"do_sample": False, "seed": 1}),
        ({"temperature": 1.0}, {"temperature": 1.0, "do_sample": True}),
        ({"temperature": 0.5, "top_p": 1.0}, {"temperature": 0.5, "do_sample": True}),
        ({"top_p": 0.0}, {"do_sample": False}),
        ({"typical_p": 1.0, "top_p": 0.9}, {"top_p": 0.9}),
    ],
)
def test_values_at_the_ends_are_sent_in_the_servers_format(
    fields: dict[str, object], sent: dict[str, object]
) -> None:
    assert generated(**fields) == {"details": True, **sent}


def test_the_chat_route_gets_no_top_p_of_one() -> None:
    assert "top_p" not in body(TGI, sampled(top_p=1.0))
    assert body(TGI, sampled(top_p=0.0))["temperature"] == 0.0
    assert body(TGI, sampled(top_p=0.5))["top_p"] == 0.5


def test_what_the_chat_route_ignores_or_misreads_is_reported() -> None:
    request = sampled(n=2, logit_bias={1: 1.0}, presence_penalty=0.5, top_k=5, stop=("END",))

    found = {one.field for one in unsupported(request, TGI.supports)}

    assert found == {"n", "logit_bias", "presence_penalty", "top_k", "stop"}


def test_a_schema_is_a_grammar() -> None:
    schema = Raw(b'{"type":"object","properties":{"a":{"type":"integer"}}}')
    form = ResponseFormat(type="json_schema", name="x", schema=schema, raw=Raw(b"{}"))
    request = ChatRequest(model="m", messages=(HELLO,), response_format=form)

    assert body(TGI, request)["response_format"] == {
        "type": "json",
        "value": msgspec.json.decode(schema),
    }


def test_the_servers_own_parameters_are_sent_among_the_others() -> None:
    extra = {"truncate": Raw(b"100"), "adapter_id": Raw(b'"a"')}
    request = CompletionRequest(model="m", prompts=("x",), extra=extra)

    sent = msgspec.json.decode(TGI.encode(request, "m").body)

    assert [one.field for one in unsupported(request, TGI.supports)] == ["adapter_id"]
    assert sent["parameters"] == {"details": True, "truncate": 100, "adapter_id": "a"}


@pytest.mark.parametrize("prompts", [("a", "b"), ((1, 2),), ("",)])
def test_a_prompt_is_one_text(prompts: tuple[str | tuple[int, ...], ...]) -> None:
    with pytest.raises(
        InvalidRequest,
        match=r"prompt: this backend (accepts a single text|does not accept an empty) prompt",
    ):
        TGI.encode(CompletionRequest(model="m", prompts=prompts), "m")


def test_a_stream_is_text_without_special_tokens_and_ends_with_its_counts() -> None:
    assert answer("generate-stream") == [
        Started(),
        TextDelta(text=" one"),
        TextDelta(text=" two 🌍"),
        Finished(reason="stop", native="eos_token", seed=7),
        Usage(prompt_tokens=4, completion_tokens=3, total_tokens=7),
    ]


def test_a_complete_answer_has_its_prompts_size_in_its_head() -> None:
    case = fixture("tgi/generate-whole")
    decoder = TGI.decoder_of(CompletionRequest(model="m", prompts=("x",)), {"x-prompt-tokens": "4"})

    found = [*decoder.feed("", case.body), *decoder.close()]

    assert found[1:] == [
        TextDelta(text=" one"),
        Finished(reason="length", seed=9),
        Usage(prompt_tokens=4, completion_tokens=1, total_tokens=5),
    ]


def test_an_error_in_a_stream_is_a_failure_and_a_missing_end_is_a_break() -> None:
    case = fixture("tgi/generate-stream")
    cut = case.body[: case.body.index(b"data:", 1)]

    with pytest.raises(UpstreamFailed, match="CUDA out of memory"):
        answer("generate-stream-error")
    with pytest.raises(UpstreamBroken, match="ended early"):
        translate(TGI, CompletionRequest(model="m", prompts=("x",), stream=True), [cut])


def test_a_tool_of_the_chat_route_is_called_once_whole() -> None:
    (choice,) = folded(answer("v1-chat-stream-tool")).choices

    assert [(one.name, one.arguments) for one in choice.tool_calls] == [
        ("weather", '{"city": "Bern"}')
    ]
    assert choice.finish is not None
    assert choice.finish.reason == "tool_calls"


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (422, UpstreamRejected),
        (424, UpstreamFailed),
        (429, UpstreamBusy),
        (500, UpstreamFailed),
    ],
)
def test_errors_have_a_meaning(status: int, kind: type[Exception]) -> None:
    case = fixture(f"tgi/error-{status}")

    error = TGI.error(case.status, {"retry-after": "3"}, case.body)

    assert isinstance(error, kind)
    assert error.message.endswith("It did not work.")


async def test_the_makers_client_and_the_adapter_send_the_same() -> None:
    async def generates(_: Received, answer: Answer) -> None:
        await answer.body(fixture("tgi/generate-whole").body, "application/json")

    async with provider(generates) as server:
        async with AsyncInferenceClient(model=server.origin) as client:
            await client.text_generation(
                "x",
                details=True,
                max_new_tokens=5,
                temperature=0.5,
                top_k=4,
                top_p=0.9,
                typical_p=0.8,
                repetition_penalty=1.5,
                frequency_penalty=0.5,
                seed=3,
                do_sample=True,
                watermark=True,
            )

    (theirs,) = server.requests
    ours = generated(
        max_tokens=5,
        temperature=0.5,
        top_k=4,
        top_p=0.9,
        typical_p=0.8,
        repetition_penalty=1.5,
        frequency_penalty=0.5,
        seed=3,
        watermark=True,
    )
    sent = json.loads(theirs.body)["parameters"]
    told = {name: value for name, value in sent.items() if value not in (None, [])}
    assert ours == {name: value for name, value in told.items() if name not in SPELT_OUT}


SPELT_OUT = frozenset({"return_full_text", "decoder_input_details", "stop"})
"""What the client says although it is the default."""
