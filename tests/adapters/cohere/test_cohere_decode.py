"""Cohere's answers decode to events."""

import json

import pytest

from strowger_gateway.adapters.base import Endpoint
from strowger_gateway.adapters.cohere.adapter import CohereAdapter
from strowger_gateway.adapters.testing import request_for, translate
from strowger_gateway.schemas.errors import (
    UpstreamBroken,
    UpstreamBusy,
    UpstreamFailed,
    UpstreamRefused,
    UpstreamRejected,
    UpstreamTimeout,
)
from strowger_gateway.schemas.events import (
    Event,
    Finished,
    OpaqueDelta,
    ReasoningDelta,
    Started,
    TextDelta,
    TokenLogprob,
    ToolDelta,
    Usage,
)
from strowger_gateway.schemas.messages import Message, ToolCall
from strowger_gateway.schemas.requests import ChatRequest, EmbeddingsRequest
from strowger_gateway.schemas.tasks.task import Unsampled
from tests.adapters.chats import only_choice
from tests.adapters.traffic import fixture

COHERE = CohereAdapter(Endpoint(name="cohere", base_url="https://api.cohere.com"))
HELLO = Message(role="user", content="hello")
WHOLE = ChatRequest(model="m", messages=(HELLO,))
STREAM = ChatRequest(model="m", messages=(HELLO,), stream=True)

Json = dict[str, object]


def read(name: str) -> list[Event]:
    case = fixture(f"cohere/{name}")
    request = request_for(case)
    assert not isinstance(request, Unsampled)
    return translate(COHERE, request, [case.body])


def whole(**fields: object) -> list[Event]:
    message = {"role": "assistant", "content": [{"type": "text", "text": "hi"}]}
    body = {"id": "x", "finish_reason": "COMPLETE", "message": message, **fields}
    return translate(COHERE, WHOLE, [json.dumps(body).encode()])


def streamed(*steps: Json) -> list[Event]:
    frames = "".join(f"event: {one.get('type')}\ndata: {json.dumps(one)}\n\n" for one in steps)
    return translate(COHERE, STREAM, [frames.encode()])


def test_a_plan_and_two_calls_come_in_pieces() -> None:
    events = read("chat-stream-plan-and-two-tools")

    assert events[:-1] == [
        Started(id="9c1e"),
        ReasoningDelta(text="I will"),
        ReasoningDelta(text=" look."),
        ToolDelta(tool=0, id="weather_1", name="weather"),
        ToolDelta(tool=0, arguments='{"at":'),
        ToolDelta(tool=0, arguments='"Zürich"}'),
        ToolDelta(tool=1, id="clock_2", name="clock"),
        ToolDelta(tool=1, arguments="{}"),
        Finished(reason="tool_calls", native="TOOL_CALL"),
    ]


def test_counts_are_whole_numbers_and_what_is_billed_is_kept() -> None:
    usage = read("chat-stream-plan-and-two-tools")[-1]

    assert isinstance(usage, Usage)
    assert (usage.prompt_tokens, usage.completion_tokens) == (120, 17)
    assert (usage.total_tokens, usage.cached_tokens) == (137, 96)
    assert usage.raw is not None
    assert json.loads(bytes(usage.raw))["billed_units"]["input_tokens"] == 20


def test_thinking_is_separate_from_text_and_citations_come_together_at_the_end() -> None:
    events = read("chat-stream-thinking-and-citations")

    found = only_choice(events)
    assert (found.reasoning, found.text) == ("So warm?", "21 °C ☀")
    (opaque,) = (one for one in events if isinstance(one, OpaqueDelta))
    citations = json.loads(bytes(opaque.fields["citations"]))
    assert [one["text"] for one in citations] == ["21", "°C"]
    assert found.finish == Finished(reason="stop", native="STOP_SEQUENCE")


def test_a_complete_answer_has_thinking_a_plan_and_calls() -> None:
    found = only_choice(read("chat-thinking-and-tools"))

    assert found.reasoning == "I will look.Hm."
    assert found.text is None
    assert found.tool_calls == [ToolCall(id="weather_1", name="weather", arguments="{}")]


def test_log_probabilities_of_several_tokens_share_their_text() -> None:
    found = only_choice(read("chat-stream-logprobs"))

    assert found.text == "Hi you"
    assert found.logprobs == [
        TokenLogprob(token="Hi", logprob=-0.25, id=7),
        TokenLogprob(token=" you", logprob=-0.5, id=8),
        TokenLogprob(token="", logprob=-1.0, id=9),
    ]


def test_a_complete_answers_log_probabilities_go_with_its_text() -> None:
    items = [{"text": "h", "token_ids": [1], "logprobs": [-0.5]}, {"text": "i", "token_ids": [2]}]

    found = only_choice(whole(logprobs=items))

    assert found.logprobs == [
        TokenLogprob(token="h", logprob=-0.5, id=1),
        TokenLogprob(token="i", logprob=None, id=2),
    ]


@pytest.mark.parametrize(
    ("word", "reason"),
    [
        ("COMPLETE", "stop"),
        ("STOP_SEQUENCE", "stop"),
        ("MAX_TOKENS", "length"),
        ("SOMETHING_NEW", "stop"),
    ],
)
def test_reasons_to_end(word: str, reason: str) -> None:
    finish = only_choice(whole(finish_reason=word)).finish

    assert finish is not None
    assert (finish.reason, finish.native) == (reason, word)


@pytest.mark.parametrize(
    ("name", "kind", "words"),
    [
        ("error-in-stream-end", UpstreamFailed, "the model went away"),
        ("error-in-stream-timeout", UpstreamTimeout, "ended with 'TIMEOUT'"),
        ("error-in-a-whole-answer", UpstreamFailed, "ended with 'ERROR'"),
    ],
)
def test_an_answer_that_failed_is_not_an_answer(
    name: str, kind: type[Exception], words: str
) -> None:  # fmt: skip
    with pytest.raises(kind, match=words):
        read(name)


@pytest.mark.parametrize("name", ["error-in-stream-end", "error-in-a-whole-answer"])
def test_usage_of_a_failed_answer_is_reported_with_its_failure(name: str) -> None:
    with pytest.raises(UpstreamFailed) as caught:
        read(name)

    assert caught.value.usage is not None
    assert (caught.value.usage.prompt_tokens, caught.value.usage.completion_tokens) == (120, 17)


@pytest.mark.parametrize(
    ("pieces", "arguments"),
    [
        (["null"], "{}"),
        (["n", "ull", "\n"], "{}"),
        ([""], "{}"),
        ([" ", '{"a":', "null}"], ' {"a":null}'),
        (["{}"], "{}"),
    ],
)
def test_no_arguments_are_an_empty_object(pieces: list[str], arguments: str) -> None:
    def step(kind: str, function: Json) -> Json:
        call = {"function": function}
        return {"type": kind, "index": 3, "delta": {"message": {"tool_calls": call}}}

    events = streamed(
        {"type": "message-start", "id": "x"},
        step("tool-call-start", {"name": "f", "arguments": ""}),
        *(step("tool-call-delta", {"arguments": piece}) for piece in pieces),
        {"type": "message-end", "delta": {"finish_reason": "TOOL_CALL"}},
    )

    assert only_choice(events).tool_calls == [
        ToolCall(id="call_x_0", name="f", arguments=arguments)
    ]  # fmt: skip


def test_an_empty_answer_is_an_empty_text() -> None:
    found = only_choice(whole(message={"role": "assistant", "content": None}))

    assert found.text == ""


def test_events_of_unknown_types_are_ignored() -> None:
    events = streamed(
        {"type": "message-start", "id": "x"},
        {"type": "something-new", "delta": {"message": {"role": "assistant"}}},
        {"type": "content-start", "delta": {"message": {"content": {"text": "hi"}}}},
        {"type": "message-end", "delta": {"finish_reason": "COMPLETE"}},
        {"type": "content-delta", "delta": {"message": {"content": {"text": "more"}}}},
    )

    assert events == [
        Started(id="x"),
        TextDelta(text="hi"),
        Finished(reason="stop", native="COMPLETE"),
    ]


def test_nulls_are_nothing() -> None:
    call = {"id": None, "function": None}
    events = streamed(
        {"type": "message-start", "id": None, "delta": None},
        {"type": "content-start", "index": None, "delta": {"message": None}},
        {"type": "content-delta", "delta": {"message": {"content": None, "tool_plan": None}}},
        {"type": "tool-call-start", "delta": {"message": {"tool_calls": call}}},
        {"type": "message-end", "delta": {"finish_reason": "TOOL_CALL", "usage": None}},
    )

    assert only_choice(events).tool_calls == [ToolCall(id="call__0", name="", arguments="{}")]
    assert only_choice(whole(id=None, message=None, logprobs=None)).text == ""


def test_counts_that_cannot_be_read_do_not_fail_an_answer() -> None:
    events = whole(usage={"tokens": "many"})

    assert isinstance(events[-1], Usage)
    assert events[-1].prompt_tokens is None
    assert events[-1].raw is not None


@pytest.mark.parametrize(
    ("body", "kind"),
    [
        (b'event: error\ndata: {"message":"no credit"}\n\n', UpstreamFailed),
        (b'data: {"message":"no credit"}\n\n', UpstreamFailed),
        (b'{"message":"no credit"}', UpstreamFailed),
        (b'data: {"type":"content-delta","delta":{"message":5}}\n\n', UpstreamBroken),
        (b"data: {\n\n", UpstreamBroken),
        (b"data: [DONE]\n\n", UpstreamBroken),
        (b"", UpstreamBroken),
    ],
)
def test_what_is_not_a_stream_is_an_error(body: bytes, kind: type[Exception]) -> None:
    with pytest.raises(kind):
        translate(COHERE, STREAM, [body])


@pytest.mark.parametrize(
    ("body", "kind"),
    [
        (b'{"id":"x","message":"no credit"}', UpstreamFailed),
        (b'{"id":"x","message":{"role":"assistant","content":[]}}', UpstreamBroken),
        (b"{}", UpstreamBroken),
    ],
)
def test_what_is_not_a_complete_answer_is_an_error(body: bytes, kind: type[Exception]) -> None:
    with pytest.raises(kind):
        translate(COHERE, WHOLE, [body])


@pytest.mark.parametrize(
    ("name", "kind", "words"),
    [
        ("error-422", UpstreamRejected, "response_format is not supported"),
        ("error-429", UpstreamBusy, "Trial key"),
        ("error-498", UpstreamRefused, "invalid api token"),
    ],
)
def test_errors_say_who_must_act(name: str, kind: type[Exception], words: str) -> None:
    case = fixture(f"cohere/{name}")

    error = COHERE.error(case.status, case.headers, case.body)

    assert isinstance(error, kind)
    assert words in str(error)
    assert error.retry_after == (12.0 if case.status == 429 else None)


def test_vectors_come_with_what_is_billed_and_never_too_few() -> None:
    body = fixture("cohere/embed-two").body
    two = EmbeddingsRequest(model="m", inputs=("one", "two"))

    found = COHERE.embeddings(two, body)

    assert found.vectors == ([0.5, -0.25], [1.0, 0.125])
    assert (found.id, found.usage.prompt_tokens, found.usage.total_tokens) == ("e1", 6, 6)
    for other in (b'{"embeddings":{}}', b'{"message":"no"}'):
        with pytest.raises(UpstreamBroken):
            COHERE.embeddings(two, other)
