"""Requests, answers and errors of Cloudflare, where they differ from other vendors."""

import json
from pathlib import Path

import pytest
from msgspec import Raw

from strowger_gateway.adapters.base import Endpoint, Outbound
from strowger_gateway.adapters.testing import fixture, translate
from strowger_gateway.schemas.answers import Answer, Fold
from strowger_gateway.schemas.errors import (
    GatewayError,
    InvalidRequest,
    UpstreamBusy,
    UpstreamRefused,
)
from strowger_gateway.schemas.messages import (
    FunctionTool,
    ImagePart,
    Message,
    ResponseFormat,
    TextPart,
    ToolCall,
)
from strowger_gateway.schemas.requests import (
    ChatRequest,
    CompletionRequest,
    EmbeddingsRequest,
    Request,
)
from strowger_gateway.schemas.sampling import Sampling
from strowger_gateway.schemas.secret import Secret
from strowger_workers_ai.adapter import WorkersAiAdapter

FIXTURES = Path(__file__).parent / "fixtures" / "workers-ai"
ADAPTER = WorkersAiAdapter(
    Endpoint(
        name="cf",
        base_url="https://api.cloudflare.com/client/v4/accounts/a1/ai",
        key=Secret("cf-token"),
        headers=(("X-Team", "blue"),),
    )
)
HELLO = Message(role="user", content="hello")
CHAT = ChatRequest(model="m", messages=(HELLO,))


def sent(request: Request) -> object:
    return json.loads(ADAPTER.encode(request, "@cf/meta/llama").body)


def chat(*messages: Message) -> ChatRequest:
    return ChatRequest(model="m", messages=messages)


def answer(name: str, *, stream: bool = False, max_tokens: int | None = None) -> Answer:
    limit = Sampling() if max_tokens is None else Sampling(max_tokens=max_tokens)
    request = ChatRequest(model="m", messages=(HELLO,), sampling=limit, stream=stream)
    fold = Fold()
    fold.add(translate(ADAPTER, request, [fixture(FIXTURES, name).body]))
    return fold.answer()


def calls(found: Answer) -> list[tuple[str, str]]:
    return [(call.name, call.arguments) for call in found.choices[0].tool_calls]


def error(name: str) -> GatewayError:
    case = fixture(FIXTURES, name)
    return ADAPTER.error(case.status, case.headers, case.body)


def test_the_model_is_in_the_path_and_the_token_in_a_header() -> None:
    outbound: Outbound = ADAPTER.encode(CHAT, "@cf/meta/llama 3")

    assert outbound.target == "/client/v4/accounts/a1/ai/run/@cf/meta/llama%203"
    assert dict(outbound.headers) == {
        "content-type": "application/json",
        "accept": "application/json",
        "authorization": "Bearer cf-token",
        "x-team": "blue",
    }
    assert outbound.body == b'{"messages":[{"role":"user","content":"hello"}]}'


def test_results_of_tools_go_back_with_the_names_of_the_functions() -> None:
    call = ToolCall(id="c1", name="weather", arguments='{"at":"Oslo"}')
    request = chat(
        HELLO,
        Message(role="assistant", tool_calls=(call,)),
        Message(
            role="tool", tool_call_id="c1", content=(TextPart(text="21"), TextPart(text=" °C"))
        ),
    )

    function = {"name": "weather", "arguments": '{"at":"Oslo"}'}
    assert sent(request) == {
        "messages": [
            {"role": "user", "content": "hello"},
            {
                "role": "assistant",
                "content": "",
                "tool_calls": [{"id": "c1", "type": "function", "function": function}],
            },
            {"role": "tool", "content": "21 °C", "tool_call_id": "c1", "name": "weather"},
        ]
    }


def test_a_prompt_is_raw_unless_the_template_is_requested() -> None:
    bare = CompletionRequest(model="m", prompts=("One,",), stream=True)
    wrapped = CompletionRequest(model="m", prompts=("One,",), template=True)

    assert sent(bare) == {"prompt": "One,", "raw": True, "stream": True}
    assert sent(wrapped) == {"prompt": "One,", "raw": False}


def test_a_schema_is_sent_without_its_name() -> None:
    form = ResponseFormat(type="json_schema", name="n", schema=Raw(b'{"type":"object"}'))
    request = ChatRequest(model="m", messages=(HELLO,), response_format=form)

    assert sent(request) == {
        "messages": [{"role": "user", "content": "hello"}],
        "response_format": {"type": "json_schema", "json_schema": {"type": "object"}},
    }


STRICT = FunctionTool(name="f", strict=True)
PICTURE = ImagePart(url="data:image/png;base64,AA==")


@pytest.mark.parametrize(
    ("request_", "param"),
    [
        (chat(Message(role="user", content="hi", name="Ann")), "messages[0].name"),
        (chat(Message(role="function", content="1", name="f")), "messages[0].role"),
        (chat(Message(role="tool", content="1")), "messages[0].tool_call_id"),
        (chat(Message(role="user", content=(PICTURE,))), "messages[0].content[0]"),
        (
            ChatRequest(model="m", messages=(HELLO,), tools=(STRICT,)),
            "tools[0].function.strict",
        ),
        (
            ChatRequest(
                model="m",
                messages=(HELLO,),
                stream=True,
                response_format=ResponseFormat(type="json_object"),
            ),
            "response_format",
        ),
        (CompletionRequest(model="m", prompts=("a", "b")), "prompt"),
        (EmbeddingsRequest(model="m", inputs=((1, 2),)), "input"),
    ],
)
def test_what_cannot_be_expressed_is_refused_by_its_path(request_: Request, param: str) -> None:
    with pytest.raises(InvalidRequest) as caught:
        ADAPTER.encode(request_, "m")

    assert caught.value.param == param
    assert caught.value.message.startswith(param)


def test_native_calls_get_ids_and_arguments_as_text() -> None:
    found = answer("chat-tools")

    assert calls(found) == [
        ("weather", '{"at": "Oslo"}'),
        ("weather", '{"at": "Rome"}'),
        ("now", "{}"),
    ]
    ids = [call.id for call in found.choices[0].tool_calls]
    assert len(set(ids)) == 3
    assert ids == [call.id for call in answer("chat-tools").choices[0].tool_calls]
    assert found.choices[0].finish is not None
    assert found.choices[0].finish.reason == "tool_calls"


def test_streamed_calls_are_put_together_by_their_index() -> None:
    found = answer("chat-stream-choices", stream=True)

    assert calls(found) == [("weather", '{"at": "Oslo"}'), ("now", "{}")]
    assert [call.id for call in found.choices[0].tool_calls] == ["t-1", "t-2"]
    assert found.choices[0].reasoning == "Hm."
    assert calls(answer("chat-stream-tools", stream=True)) == [
        ("weather", '{"at": "Oslo"}'),
        ("now", "{}"),
    ]


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("chat", "It is 21 °C."),
        ("chat-number", "42"),
        ("chat-json", '{"at": "Oslo", "warm": false}'),
    ],
)
def test_a_response_of_any_type_is_text(name: str, text: str) -> None:
    assert answer(name).choices[0].text == text


@pytest.mark.parametrize(
    ("name", "max_tokens", "reason"),
    [
        ("chat", None, "stop"),
        ("chat", 6, "stop"),
        ("chat", 5, "length"),
        ("chat-choices", None, "length"),
        ("chat-tools", 5, "tool_calls"),
    ],
)
def test_an_answer_has_the_reported_or_counted_finish_reason(
    name: str, max_tokens: int | None, reason: str
) -> None:
    finish = answer(name, max_tokens=max_tokens).choices[0].finish

    assert finish is not None
    assert finish.reason == reason


def test_usage_is_counted_with_what_came_from_the_cache() -> None:
    usage = answer("chat-choices").usage

    assert usage is not None
    assert (usage.prompt_tokens, usage.completion_tokens, usage.total_tokens) == (12, 5, 17)
    assert usage.cached_tokens == 8


def test_texts_become_vectors() -> None:
    case = fixture(FIXTURES, "embeddings")
    request = EmbeddingsRequest(model="m", inputs=("a", "b"))

    vectors = ADAPTER.embeddings(request, case.body).vectors

    assert vectors == ([0.25, -1.0, 0.5], [0.5, 2.0, 0.0])


def test_a_code_says_more_than_its_status() -> None:
    unknown, used_up, busy = map(
        error, ("error-400-no-such-model", "error-429-allocation", "error-429-capacity")
    )

    assert isinstance(unknown, UpstreamRefused)
    assert unknown.code == "upstream_model_unknown"
    assert isinstance(used_up, UpstreamRefused)
    assert isinstance(busy, UpstreamBusy)
    assert busy.retry_after == 7
    with pytest.raises(UpstreamBusy, match="cf: Capacity temporarily exceeded"):
        answer("chat-error")
