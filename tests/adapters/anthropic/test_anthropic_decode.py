"""Answers of Anthropic's Messages API, streamed and complete, decode to our events."""

import json

import msgspec
import pytest

from strowger_gateway.adapters.anthropic.adapter import AnthropicAdapter
from strowger_gateway.adapters.base import Endpoint
from strowger_gateway.adapters.testing import request_for, translate
from strowger_gateway.schemas.answers import Answer, Choice, Fold
from strowger_gateway.schemas.errors import (
    GatewayError,
    UpstreamBroken,
    UpstreamBusy,
    UpstreamFailed,
    UpstreamOverloaded,
    UpstreamRefused,
    UpstreamRejected,
    UpstreamTimeout,
)
from strowger_gateway.schemas.events import (
    Event,
    Finished,
    OpaqueDelta,
    ReasoningDelta,
    TextDelta,
    Usage,
)
from strowger_gateway.schemas.messages import CLAUDE, Message, Thought, ToolCall
from strowger_gateway.schemas.requests import ChatRequest
from tests.adapters.traffic import fixture, traffic

ANTHROPIC = AnthropicAdapter(Endpoint(name="claude", base_url="https://api.anthropic.com"))
HELLO = (Message(role="user", content="hello"),)
WHOLE = ChatRequest(model="m", messages=HELLO)
STREAM = ChatRequest(model="m", messages=HELLO, stream=True)

Json = dict[str, object]


def sse(*events: Json) -> bytes:
    return b"".join(f"event: {one['type']}\ndata: {json.dumps(one)}\n\n".encode() for one in events)


def begun(**usage: object) -> Json:
    message = {"id": "msg_1", "model": "claude", "usage": {"input_tokens": 12, **usage}}
    return {"type": "message_start", "message": message}


def text(*pieces: str) -> list[Json]:
    start: Json = {
        "type": "content_block_start",
        "index": 0,
        "content_block": {"type": "text", "text": ""},
    }
    deltas = [{"type": "text_delta", "text": piece} for piece in pieces]
    return [start, *({"type": "content_block_delta", "index": 0, "delta": one} for one in deltas)]


def ended(reason: str | None, **delta: object) -> list[Json]:
    end: Json = {
        "type": "message_delta",
        "delta": {"stop_reason": reason, **delta},
        "usage": {"output_tokens": 5},
    }
    return [end, {"type": "message_stop"}]


def events(body: bytes, request: ChatRequest = STREAM) -> list[Event]:
    return translate(ANTHROPIC, request, [body])


def folded(name: str) -> Answer:
    case, fold = fixture(f"anthropic/{name}"), Fold()
    request = request_for(case)
    assert isinstance(request, ChatRequest)
    fold.add(translate(ANTHROPIC, request, [case.body]))
    return fold.answer()


def only(answer: Answer) -> Choice:
    (choice,) = answer.choices
    return choice


@pytest.mark.parametrize("name", ["chat-stream-thinking-then-tools", "chat-thinking-and-tools"])
def test_reasoning_text_and_calls_are_the_same_streamed_and_complete(name: str) -> None:
    choice = only(folded(name))

    assert choice.text == "One moment."
    assert choice.thoughts == [
        Thought(text="I look it up.", signature="c2lnLTE=", format=CLAUDE),
        Thought(data="ZW5jcnlwdGVk", format=CLAUDE),
    ]
    assert choice.tool_calls == [
        ToolCall(id="toolu_1", name="weather", arguments='{"city":"Bern"}'),
        ToolCall(id="toolu_2", name="now", arguments="{}"),
    ]
    assert choice.finish == Finished(reason="tool_calls", native="tool_use")
    assert not choice.opaque


def test_usage_counts_cached_and_reasoning_tokens() -> None:
    usage = folded("chat-thinking-and-tools").usage

    assert usage is not None
    assert (usage.prompt_tokens, usage.completion_tokens, usage.total_tokens) == (117, 30, 147)
    assert (usage.cached_tokens, usage.cache_write_tokens) == (100, 5)
    assert usage.reasoning_tokens == 20


def test_cache_writes_of_an_hour_are_counted_apart() -> None:
    written = {"ephemeral_5m_input_tokens": 10, "ephemeral_1h_input_tokens": 2056}
    start = begun(cache_creation_input_tokens=2066, cache_creation=written)

    found = events(sse(start, *text("hi"), *ended("end_turn")))

    (usage,) = [one for one in found if isinstance(one, Usage)]
    assert (usage.cache_write_tokens, usage.cache_write_1h_tokens) == (2066, 2056)
    assert usage.prompt_tokens == 2078


def test_counts_at_the_end_replace_those_at_the_beginning() -> None:
    end = ended("end_turn")
    end[0]["usage"] = {"input_tokens": 40, "output_tokens": 5, "cache_read_input_tokens": None}

    found = events(sse(begun(output_tokens=1, cache_read_input_tokens=3), *text("hi"), *end))

    (usage,) = [one for one in found if isinstance(one, Usage)]
    assert (usage.prompt_tokens, usage.completion_tokens, usage.cached_tokens) == (43, 5, 3)
    assert usage.raw is not None
    assert json.loads(bytes(usage.raw))["input_tokens"] == 40


def test_counts_that_cannot_be_read_do_not_fail_an_answer() -> None:
    found = events(sse(begun(input_tokens="many"), *text("hi"), *ended("end_turn")))

    (usage,) = [one for one in found if isinstance(one, Usage)]
    assert usage.prompt_tokens is None


def test_a_proof_is_the_last_piece_of_its_block() -> None:
    thoughts = [
        one
        for one in events(fixture("anthropic/chat-stream-interleaved").body)
        if isinstance(one, ReasoningDelta)
    ]

    assert [(one.block, one.text, one.signature) for one in thoughts] == [
        (0, "I look", ""),
        (0, " both up.", ""),
        (0, "", "c2lnLTE="),
        (1, "And the other.", ""),
        (1, "", "c2lnLTI="),
    ]


def test_reasoning_between_calls_comes_with_the_blocks_in_their_order() -> None:
    choice = only(folded("chat-stream-interleaved"))

    handed = msgspec.json.decode(choice.opaque["content_blocks"], type=list[Json])
    assert [one["type"] for one in handed] == [
        "thinking",
        "text",
        "tool_use",
        "thinking",
        "tool_use",
    ]
    assert handed[0] == {
        "type": "thinking",
        "thinking": "I look both up.",
        "signature": "c2lnLTE=",
    }
    assert handed[2]["input"] == {"city": "Bern"}
    assert [call.arguments for call in choice.tool_calls] == [
        '{"city":"Bern"}',
        '{"city":"Basel"}',
    ]


def test_the_vendors_own_tools_and_citations_are_carried_and_a_pause_is_reported() -> None:
    choice = only(folded("chat-stream-search-and-pause"))

    handed = msgspec.json.decode(choice.opaque["content_blocks"], type=list[Json])
    assert [one["type"] for one in handed] == [
        "server_tool_use",
        "web_search_tool_result",
        "text",
    ]
    assert handed[0]["input"] == {"query": "bern"}
    (citation,) = msgspec.convert(handed[2]["citations"], list[Json])
    assert citation["cited_text"] == "19 degrees"
    assert b"container_1" in bytes(choice.opaque["container"])
    assert choice.text == "It is 19 degrees."
    assert not choice.tool_calls
    assert choice.finish == Finished(reason="stop", native="pause_turn")


@pytest.mark.parametrize(
    ("word", "reason"),
    [
        ("end_turn", "stop"),
        ("stop_sequence", "stop"),
        ("pause_turn", "stop"),
        ("max_tokens", "length"),
        ("model_context_window_exceeded", "length"),
        ("refusal", "content_filter"),
        ("a_new_reason", "stop"),
    ],
)
def test_every_stop_reason_has_a_meaning(word: str, reason: str) -> None:
    finished = [
        one for one in events(sse(begun(), *text("hi"), *ended(word))) if isinstance(one, Finished)
    ]

    assert [(one.reason, one.native) for one in finished] == [(reason, word)]


def test_the_stop_string_that_matched_is_reported() -> None:
    found = events(sse(begun(), *text("hi"), *ended("stop_sequence", stop_sequence="END")))

    assert Finished(reason="stop", native="stop_sequence", stop_match="END") in found


def test_a_refusal_has_a_reason() -> None:
    details = {"type": "refusal", "category": "cyber", "explanation": "No malware."}
    body: Json = {"content": [], "stop_reason": "refusal", "stop_details": details}

    fold = Fold()
    fold.add(events(json.dumps(body).encode(), WHOLE))

    choice = only(fold.answer())
    assert choice.text is None
    assert choice.refusal == "No malware."
    assert json.loads(bytes(choice.opaque["stop_details"])) == details
    assert choice.finish == Finished(reason="content_filter", native="refusal")


def test_an_answer_with_nothing_to_add_is_an_empty_text() -> None:
    assert only(folded("chat-nothing-to-add")).text == ""


def test_an_answer_with_only_thinking_is_an_empty_text() -> None:
    thought = {"type": "thinking", "thinking": "Hm.", "signature": "c2ln"}
    body = {"content": [thought], "stop_reason": "max_tokens"}

    fold = Fold()
    fold.add(events(json.dumps(body).encode(), WHOLE))

    assert only(fold.answer()).text == ""


def test_a_call_that_is_complete_at_its_start_keeps_its_arguments() -> None:
    call = {"type": "tool_use", "id": "toolu_1", "name": "look", "input": {"at": "Bern", "n": 1.50}}
    start: Json = {"type": "content_block_start", "index": 3, "content_block": call}

    fold = Fold()
    fold.add(events(sse(begun(), start, *ended("tool_use"))))

    (made,) = only(fold.answer()).tool_calls
    assert json.loads(made.arguments) == {"at": "Bern", "n": 1.5}


@pytest.mark.parametrize("more", [{"delta": {"type": "x"}, "index": 9}, {"delta": 1, "usage": ""}])
def test_unknown_events_are_skipped_with_any_content(more: Json) -> None:
    odd: Json = {"type": "rumour", **more}

    found = events(sse({"type": "ping"}, begun(), odd, *text("hi"), odd, *ended("end_turn")))

    assert [one.text for one in found if isinstance(one, TextDelta)] == ["hi"]


def test_unknown_blocks_are_carried_without_their_own_end() -> None:
    start: Json = {
        "type": "content_block_start",
        "index": 1,
        "content_block": {"type": "sketch", "lines": [1], "text": 5, "id": None},
    }

    found = events(sse(begun(), *text("hi"), start, *ended("end_turn")))

    (opaque,) = [one for one in found if isinstance(one, OpaqueDelta)]
    assert json.loads(bytes(opaque.fields["content_blocks"])) == [
        {"type": "text", "text": "hi"},
        {"type": "sketch", "lines": [1], "text": 5, "id": None},
    ]


@pytest.mark.parametrize(
    "body",
    [
        sse(begun(), *text("hi")),
        sse(begun(), *text("hi"), ended("end_turn")[0]),
        sse(begun(), *text("hi"), {"type": "message_stop"}),
        sse({"type": "message_stop"}),
        sse(*ended("end_turn")),
        sse(begun(), *text("hi")[1:]),
        b"",
    ],
    ids=["no end", "no stop", "no reason", "only a stop", "no beginning", "no block", "nothing"],
)
def test_a_stream_that_is_not_complete_never_ends_well(body: bytes) -> None:
    with pytest.raises(UpstreamBroken):
        events(body)


def test_a_second_answer_inside_the_first_is_a_failure() -> None:
    spliced = sse(begun(), *text("I will"), begun(), *text("Let me"), *ended("end_turn"))

    with pytest.raises(UpstreamBroken, match="a second answer started"):
        events(spliced)


def test_a_second_beginning_before_anything_was_shown_replaces_the_first() -> None:
    found = events(sse(begun(), begun(input_tokens=20), *text("hi"), *ended("end_turn")))

    assert [one.prompt_tokens for one in found if isinstance(one, Usage)] == [20]


@pytest.mark.parametrize("case", traffic("anthropic/stream-spliced"), ids=lambda case: case.name)
def test_the_recorded_splice_is_a_failure(case: msgspec.Struct) -> None:
    with pytest.raises(UpstreamBroken, match="a second answer started"):
        events(getattr(case, "body", b""))


@pytest.mark.parametrize(
    ("kind", "error"),
    [
        ("overloaded_error", UpstreamOverloaded),
        ("api_error", UpstreamFailed),
        ("timeout_error", UpstreamTimeout),
        ("rate_limit_error", UpstreamBusy),
        ("authentication_error", UpstreamRefused),
        ("billing_error", UpstreamRefused),
        ("permission_error", UpstreamRefused),
        ("not_found_error", UpstreamRefused),
        ("request_too_large", UpstreamRejected),
        ("invalid_request_error", UpstreamRejected),
        ("a_new_error", UpstreamFailed),
    ],
)
@pytest.mark.parametrize("stream", [False, True])
def test_an_error_inside_a_200_is_recognised_by_its_type(
    kind: str, error: type[GatewayError], stream: bool
) -> None:
    said: Json = {"type": "error", "error": {"type": kind, "message": "It broke."}}
    body = sse(begun(), *text("hi"), said) if stream else json.dumps(said).encode()

    with pytest.raises(error, match=r"It broke\."):
        events(body, STREAM if stream else WHOLE)


def test_a_prompt_that_is_too_long_has_openais_code() -> None:
    case = fixture("anthropic/error-400-too-long")

    error = ANTHROPIC.error(case.status, {}, case.body)

    assert isinstance(error, UpstreamRejected)
    assert (error.code, error.type, error.status) == (
        "context_length_exceeded",
        "invalid_request_error",
        400,
    )


def test_an_account_without_credit_is_the_operators_fault() -> None:
    said = "Your credit balance is too low to access the Anthropic API."
    body = json.dumps({"error": {"type": "invalid_request_error", "message": said}})

    assert isinstance(ANTHROPIC.error(400, {}, body.encode()), UpstreamRefused)


@pytest.mark.parametrize(
    ("headers", "wait"),
    [
        ({"retry-after": "13"}, 13.0),
        ({"retry-after-ms": "1500"}, 1.5),
        (
            {
                "date": "Sat, 21 Nov 2026 19:00:00 GMT",
                "anthropic-ratelimit-requests-remaining": "7",
                "anthropic-ratelimit-requests-reset": "2026-11-21T20:00:00Z",
                "anthropic-ratelimit-tokens-remaining": "0",
                "anthropic-ratelimit-tokens-reset": "2026-11-21T19:00:30Z",
                "anthropic-ratelimit-input-tokens-remaining": "0",
                "anthropic-ratelimit-input-tokens-reset": "2026-11-21T19:00:10Z",
            },
            30.0,
        ),
        ({"anthropic-ratelimit-tokens-remaining": "0"}, None),
        ({}, None),
    ],
)
def test_a_rate_limit_has_the_time_to_wait(headers: dict[str, str], wait: float | None) -> None:
    case = fixture("anthropic/error-429")

    error = ANTHROPIC.error(429, headers, case.body)

    assert isinstance(error, UpstreamBusy)
    assert error.retry_after == wait
    assert error.message == "claude: This request would exceed your rate limit."
