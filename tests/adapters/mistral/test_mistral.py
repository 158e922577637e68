"""Requests and answers of Mistral, where it differs from OpenAI."""

import msgspec
import pytest
from msgspec import Raw

from strowger_gateway.adapters.base import Endpoint
from strowger_gateway.adapters.capabilities import unsupported
from strowger_gateway.adapters.mistral.adapter import MistralAdapter
from strowger_gateway.adapters.testing import request_for, translate
from strowger_gateway.schemas.errors import (
    InvalidRequest,
    UpstreamBusy,
    UpstreamFailed,
    UpstreamRefused,
    UpstreamRejected,
)
from strowger_gateway.schemas.events import Event, Finished, ReasoningDelta, TextDelta
from strowger_gateway.schemas.messages import MISTRAL as MISTRALS
from strowger_gateway.schemas.messages import (
    AudioPart,
    FunctionTool,
    Message,
    OpaquePart,
    TextPart,
    Thought,
    ToolCall,
    ToolChoice,
)
from strowger_gateway.schemas.requests import ChatRequest, CompletionRequest, EmbeddingsRequest
from strowger_gateway.schemas.sampling import Sampling
from strowger_gateway.schemas.secret import Secret
from strowger_gateway.schemas.tasks.task import Unsampled
from tests.adapters.chats import folded
from tests.adapters.openai.openai_doubles import CHAT, HELLO, WHOLE_CHAT, body, sampled
from tests.adapters.traffic import fixture

MISTRAL = MistralAdapter(
    Endpoint(name="mistral", base_url="https://api.mistral.ai/v1", key=Secret("key-0123456789"))
)


def answer(name: str) -> list[Event]:
    case = fixture(f"mistral/{name}")
    request = request_for(case)
    assert not isinstance(request, Unsampled)
    return translate(MISTRAL, request, [case.body])


def message(one: Message) -> object:
    sent = MISTRAL.encode(ChatRequest(model="m", messages=(one,)), "m1").body
    return msgspec.json.decode(sent)["messages"][0]


def test_seed_and_limit_have_mistrals_names() -> None:
    request = msgspec.structs.replace(
        sampled(seed=3, max_tokens=5), max_tokens_field="max_completion_tokens"
    )

    sent = body(MISTRAL, request)

    assert (sent["random_seed"], sent["max_tokens"]) == (3, 5)
    assert not {"seed", "max_completion_tokens"} & sent.keys()


def test_usage_is_not_requested_in_streams_that_have_it_anyway() -> None:
    assert "stream_options" not in body(MISTRAL, CHAT)


def test_a_call_that_must_be_made_is_any_call() -> None:
    tools = (FunctionTool(name="f"),)
    named = Raw(b'{"type":"function","function":{"name":"f"}}')
    request = ChatRequest(model="m", messages=(HELLO,), tools=tools)

    def chosen(choice: ToolChoice) -> object:
        return body(MISTRAL, msgspec.structs.replace(request, tool_choice=choice))["tool_choice"]

    assert chosen(ToolChoice(mode="required")) == "any"
    assert chosen(ToolChoice(mode="required", raw=Raw(b'"required"'))) == "any"
    assert chosen(ToolChoice(mode="named", name="f", raw=named)) == msgspec.json.decode(named)


def test_a_function_without_parameters_gets_empty_ones() -> None:
    raw = Raw(b'{"type":"function","function":{"name":"f","strict":null,"description":"d"}}')
    tools = (FunctionTool(name="f"), FunctionTool(name="f", description="d", raw=raw))

    sent = body(MISTRAL, ChatRequest(model="m", messages=(HELLO,), tools=tools))

    empty: dict[str, object] = {"type": "object", "properties": {}}
    assert sent["tools"] == [
        {"type": "function", "function": {"name": "f", "parameters": empty}},
        {"type": "function", "function": {"name": "f", "description": "d", "parameters": empty}},
    ]


@pytest.mark.parametrize(
    ("field", "value"), [("logit_bias", {1: 1.0}), ("min_p", 0.1), ("stop_token_ids", (3,))]
)
def test_what_mistral_does_not_know_is_reported(field: str, value: object) -> None:
    found = unsupported(sampled(**{field: value}), MISTRAL.supports)

    assert [one.field for one in found] == [field]


def test_unknown_fields_are_reported_and_mistrals_own_are_forwarded() -> None:
    extra = {"safe_prompt": Raw(b"true"), "store": Raw(b"true")}
    request = msgspec.structs.replace(WHOLE_CHAT, extra=extra)
    own = msgspec.structs.replace(WHOLE_CHAT, extra={"safe_prompt": Raw(b"true")})

    assert [one.field for one in unsupported(request, MISTRAL.supports)] == ["store"]
    assert body(MISTRAL, own)["safe_prompt"] is True


def test_one_thing_under_two_names_is_refused() -> None:
    request = msgspec.structs.replace(sampled(seed=3), extra={"random_seed": Raw(b"4")})

    with pytest.raises(InvalidRequest, match="random_seed: seed has the same meaning"):
        MISTRAL.encode(request, "m")


def test_calls_have_only_members_of_mistrals_schema() -> None:
    call = ToolCall(id="gSIMJiOkT", name="f", arguments="{}")
    raw = Raw(
        b'{"role":"assistant","content":null,"refusal":null,"annotations":[],"tool_calls":[{"id":'
        b'"gSIMJiOkT","type":"function","function":{"name":"f","arguments":"{}"}}]}'
    )

    asked = message(Message(role="assistant", tool_calls=(call,), raw=raw))
    made = message(Message(role="assistant", tool_calls=(call,)))

    function = {"name": "f", "arguments": "{}"}
    expected = [{"id": "gSIMJiOkT", "type": "function", "function": function}]
    assert asked == {"role": "assistant", "content": None, "tool_calls": expected}
    assert made == {"role": "assistant", "content": None, "tool_calls": expected}


def test_reasoning_is_sent_back_as_chunks_before_the_text() -> None:
    raw = Raw(
        b'{"role":"assistant","content":"Yes.","reasoning":"ab","reasoning_content":"ab",'
        b'"reasoning_details":[],"content_parts":[{"type":"reference","reference_ids":[1]}]}'
    )
    thoughts = (
        Thought(text="a", signature="s", format=MISTRALS),
        Thought(text="b", signature="another vendor's"),
        Thought(data="hidden"),
    )
    turn = Message(role="assistant", content="Yes.", thoughts=thoughts, raw=raw)
    kept = OpaquePart(type="thinking", raw=Raw(b'{"type":"thinking","thinking":[]}'))
    parts = Message(role="assistant", content=(kept, TextPart(text="x")), reasoning="again")

    def thought(text: str) -> dict[str, object]:
        return {"type": "thinking", "thinking": [{"type": "text", "text": text}]}

    assert message(turn) == {
        "role": "assistant",
        "content": [
            {**thought("a"), "signature": "s"},
            thought("b"),
            {"type": "text", "text": "Yes."},
            {"type": "reference", "reference_ids": [1]},
        ],
    }
    assert message(parts) == {
        "role": "assistant",
        "content": [{"type": "thinking", "thinking": []}, {"type": "text", "text": "x"}],
    }


def test_audio_is_bare_base64_and_a_prefix_stays() -> None:
    audio = AudioPart(data="QUJD", format="wav", raw=Raw(b'{"type":"input_audio"}'))
    prefix = Raw(b'{"role":"assistant","content":"Sure","prefix":true}')

    assert message(Message(role="user", content=(audio,))) == {
        "role": "user",
        "content": [{"type": "input_audio", "input_audio": "QUJD"}],
    }
    assert message(Message(role="assistant", content="Sure", raw=prefix)) == {
        "role": "assistant",
        "content": "Sure",
        "prefix": True,
    }


def test_a_completion_fills_in_the_middle() -> None:
    request = CompletionRequest(
        model="m", prompts=("def add(",), batch=True, suffix="return c", sampling=Sampling(seed=1)
    )

    outbound = MISTRAL.encode(request, "codestral-latest")

    assert outbound.target == "/v1/fim/completions"
    assert msgspec.json.decode(outbound.body) == {
        "model": "codestral-latest",
        "prompt": "def add(",
        "suffix": "return c",
        "random_seed": 1,
    }
    assert TextDelta(text="a, b):\n    c = a + b\n    ") in answer("fim")


@pytest.mark.parametrize("prompts", [("a", "b"), ((1, 2),)])
def test_a_completion_has_one_prompt_of_text(prompts: tuple[str | tuple[int, ...], ...]) -> None:
    with pytest.raises(InvalidRequest, match="a single text prompt"):
        MISTRAL.encode(CompletionRequest(model="m", prompts=prompts), "m")


def test_vectors_have_the_length_of_output_dimension() -> None:
    request = EmbeddingsRequest(model="m", inputs=("a", "b"), batch=True, dimensions=2)
    case = fixture("mistral/embeddings")

    sent = msgspec.json.decode(MISTRAL.encode(request, "codestral-embed").body)

    assert sent == case_request(case.sent)
    assert MISTRAL.embeddings(request, case.body).vectors == ([0.5, -0.25], [0.125, 1.0])


def case_request(sent: dict[str, Raw]) -> object:
    return msgspec.json.decode(msgspec.json.encode(sent))


def test_thinking_streams_as_reasoning_and_ends_with_its_signature() -> None:
    found = answer("chat-stream-thinking")

    assert [one for one in found if isinstance(one, ReasoningDelta)] == [
        ReasoningDelta(text="Let me"),
        ReasoningDelta(text=" see."),
        ReasoningDelta(text="", signature="c2ln", format=MISTRALS),
    ]
    assert TextDelta(text="Yes.") in found
    assert Finished(reason="length", native="model_length") in found


def test_calls_without_ids_at_one_index_are_distinguished() -> None:
    (choice,) = folded(answer("chat-stream-two-calls-without-ids")).choices

    assert [(call.name, call.arguments) for call in choice.tool_calls] == [
        ("now", "{}"),
        ("weather", '{"city":"Bern"}'),
    ]
    assert len({call.id for call in choice.tool_calls} - {"null", ""}) == 2
    assert not choice.opaque


def test_references_are_passed_on_with_the_text() -> None:
    (choice,) = folded(answer("chat-references")).choices

    assert choice.text == "Bern is it."
    assert bytes(choice.opaque["content_parts"]) == b'[{"type":"reference","reference_ids":[1]}]'


def test_an_answer_that_ends_with_error_is_a_failure() -> None:
    with pytest.raises(UpstreamFailed, match="'error'"):
        answer("chat-failed-error")


@pytest.mark.parametrize(
    ("name", "kind", "told", "param"),
    [
        ("error-422-unknown-field", UpstreamRejected, "logit_bias: Extra inputs", "logit_bias"),
        ("error-422-bare", UpstreamRejected, "messages: Field required", "messages"),
        ("error-400", UpstreamRefused, "Invalid model", None),
    ],
)
def test_a_refusal_names_the_field(
    name: str, kind: type[Exception], told: str, param: str | None
) -> None:
    case = fixture(f"mistral/{name}")

    error = MISTRAL.error(case.status, case.headers, case.body)

    assert isinstance(error, kind)
    assert told in error.message
    assert error.param == param


def test_a_rate_limit_is_busy() -> None:
    case = fixture("mistral/error-429")

    error = MISTRAL.error(429, {"retry-after": "2"}, case.body)

    assert isinstance(error, UpstreamBusy)
    assert error.retry_after == 2.0
