"""Answers of the Responses API as events, whatever a server sends, leaves out, or adds."""

import json
from contextlib import suppress
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strowger_gateway.adapters.testing import request_for, translate
from strowger_gateway.schemas.errors import (
    GatewayError,
    UpstreamBroken,
    UpstreamBusy,
    UpstreamFailed,
    UpstreamRejected,
)
from strowger_gateway.schemas.events import Started, Usage
from strowger_gateway.schemas.messages import OPENAI as FORMAT
from strowger_gateway.schemas.messages import Thought
from strowger_gateway.schemas.requests import ChatRequest
from tests.adapters.chats import chat, folded, only_choice
from tests.adapters.openai_responses.responses_doubles import OPENAI, Json, adapter, events_of
from tests.adapters.traffic import fixture

WHOLE, STREAM = chat(), chat(stream=True)
NONE: list[Json] = []


def answered(name: str) -> tuple[ChatRequest, bytes]:
    found = fixture(f"openai-responses/{name}")
    request = request_for(found)
    assert isinstance(request, ChatRequest)
    return request, found.body


@pytest.mark.parametrize("name", ["chat-tools", "chat-stream-thought-and-tools"])
def test_reasoning_has_its_proof_and_calls_their_arguments(name: str) -> None:
    request, body = answered(name)

    answer = folded(translate(OPENAI, request, [body]))

    (choice,) = answer.choices
    assert choice.thoughts == [
        Thought(text="Where is it?", signature="rs_7.gAAAAABn", format=FORMAT)
    ]
    assert [(one.id, one.name, json.loads(one.arguments)) for one in choice.tool_calls] == [
        ("call_1", "weather", {"at": "A"}),
        ("call_2", "clock", {}),
    ]
    assert choice.finish is not None
    assert choice.finish.reason == "tool_calls"
    assert isinstance(answer.usage, Usage)
    assert (answer.usage.prompt_tokens, answer.usage.completion_tokens) == (11, 5)


def test_a_server_that_does_not_check_proofs_gives_only_the_text() -> None:
    request, body = answered("chat-tools")

    choice = only_choice(translate(adapter("ollama-responses"), request, [body]))

    assert choice.thoughts == [Thought(text="Where is it?")]


@pytest.mark.parametrize("name", ["chat-search", "chat-stream-search"])
def test_other_clients_get_citations_items_and_probabilities(name: str) -> None:
    request, body = answered(name)

    answer = folded(translate(OPENAI, request, [body]))

    (choice,) = answer.choices
    assert choice.text == "Sunny"
    assert [(one.token, one.logprob) for one in choice.logprobs] == [("Sunny", -0.1)]
    (cited,) = json.loads(bytes(choice.opaque["annotations"]))
    assert cited["type"] == "url_citation"
    assert cited["url_citation"]["url"] == "https://example.com/a"
    (item,) = json.loads(bytes(choice.opaque["output_items"]))
    assert (item["type"], item["id"]) == ("web_search_call", "ws_1")
    assert {name: bytes(raw) for name, raw in answer.started.extra.items()} == {
        "service_tier": b'"default"'
    }


def test_citations_of_a_second_text_are_counted_in_the_whole_answer() -> None:
    cited: Json = {
        "type": "url_citation",
        "url": "https://a.test",
        "start_index": 3,
        "end_index": 7,
    }
    second: list[Json] = [cited, {"type": "url_citation", "url": "b"}]
    texts = [("I look. ", NONE), ("It snows.", second)]
    parts = [{"type": "output_text", "text": one, "annotations": found} for one, found in texts]
    output = [{"type": "message", "id": "m", "content": [part]} for part in parts]
    body = json.dumps({"id": "r", "status": "completed", "output": output}).encode()

    choice = only_choice(translate(OPENAI, WHOLE, [body]))

    placed, bare = json.loads(bytes(choice.opaque["annotations"]))
    place = placed["url_citation"]
    assert choice.text is not None
    assert choice.text[place["start_index"] : place["end_index"]] == "snow"
    assert bare["url_citation"] == {"url": "b"}


def test_a_limit_ends_an_answer_with_length() -> None:
    request, body = answered("chat-incomplete")

    finish = only_choice(translate(OPENAI, request, [body])).finish

    assert finish is not None
    assert (finish.reason, finish.native) == ("length", "max_output_tokens")


def test_a_refusal_is_a_refusal() -> None:
    request, body = answered("chat-stream-refusal")

    choice = only_choice(translate(OPENAI, request, [body]))

    assert (choice.text, choice.refusal) == (None, "I can't do that.")


FAILURES: list[tuple[Json, type[GatewayError]]] = [
    ({"type": "error", "code": "server_error", "message": "x"}, UpstreamFailed),
    ({"type": "error", "code": "rate_limit_exceeded", "message": "x"}, UpstreamBusy),
    ({"type": "error", "error": {"code": "invalid_prompt", "message": "x"}}, UpstreamRejected),
    (
        {"type": "error", "error": {"type": "invalid_request_error", "message": "x"}},
        UpstreamRejected,
    ),
    (
        {
            "type": "response.failed",
            "response": {"status": "failed", "error": {"code": "image_too_large", "message": "x"}},
        },
        UpstreamRejected,
    ),
    (
        {"type": "response.failed", "response": {"status": "failed", "error": None}},
        UpstreamFailed,
    ),
    ({"error": {"message": "x", "type": "server_error"}}, UpstreamFailed),
]


@pytest.mark.parametrize(("event", "kind"), FAILURES)
def test_a_failure_in_a_stream_has_its_meaning(event: Json, kind: type[GatewayError]) -> None:
    with pytest.raises(kind):
        translate(OPENAI, STREAM, [events_of([event])])


@pytest.mark.parametrize("status", ["failed", "cancelled", "queued", "in_progress"])
def test_a_whole_answer_that_is_none_is_a_failure(status: str) -> None:
    body: Json = {"id": "r", "status": status, "output": NONE, "usage": {"input_tokens": 3}}

    with pytest.raises(UpstreamFailed) as caught:
        translate(OPENAI, WHOLE, [json.dumps(body).encode()])

    if status == "failed":
        assert caught.value.usage == Usage(
            prompt_tokens=3, raw=caught.value.usage and caught.value.usage.raw
        )


def test_a_stream_without_its_last_event_is_broken() -> None:
    _, body = answered("chat-stream")
    cut = body[: body.index(b"event: response.completed")]

    for end in (b"", b"data: [DONE]\n\n"):
        with pytest.raises(UpstreamBroken, match="ended early"):
            translate(OPENAI, STREAM, [cut + end])


CALL: Json = {"type": "function_call", "id": "f", "call_id": "c", "name": "look", "arguments": ""}
TEXT: Json = {
    "type": "message",
    "role": "assistant",
    "content": [{"type": "output_text", "text": "Hi"}],
}
END: Json = {"type": "response.completed", "response": {"id": "r", "status": "completed"}}


@pytest.mark.parametrize(
    "events",
    [
        [{"type": "response.output_text.delta", "output_index": 0, "delta": "Hi"}],
        [{"type": "response.output_item.done", "output_index": 0, "item": TEXT}],
        [
            {"type": "response.output_item.added", "output_index": 0, "item": TEXT},
            {"type": "response.output_text.delta", "output_index": 0, "delta": "Hi"},
            {"type": "response.output_item.done", "output_index": 0, "item": TEXT},
        ],
        [
            {"type": "response.brand_new", "delta": {"of": ["any", "kind"]}, "output_index": None},
            {"type": "keepalive"},
            {"type": "response.output_text.delta", "output_index": 0, "delta": "Hi"},
        ],
    ],
    ids=["a delta only", "an end only", "all", "new events"],
)
def test_servers_may_leave_out_and_add_events(events: list[Json]) -> None:
    answer = folded(translate(OPENAI, STREAM, [events_of([*events, END])]))

    assert [one.text for one in answer.choices] == ["Hi"]


def test_items_that_are_only_in_the_last_event_are_read() -> None:
    end = {"type": "response.completed", "response": {"status": "completed", "output": [TEXT]}}

    assert only_choice(translate(OPENAI, STREAM, [events_of([end])])).text == "Hi"


def test_items_with_the_same_index_follow_one_another() -> None:
    def call(id: str) -> list[Json]:
        item = {**CALL, "call_id": id}
        return [
            {"type": "response.output_item.added", "output_index": 0, "item": item},
            {"type": "response.function_call_arguments.delta", "output_index": 0, "delta": "{}"},
        ]

    answer = only_choice(translate(OPENAI, STREAM, [events_of([*call("a"), *call("b"), END])]))

    assert [(one.id, one.arguments) for one in answer.tool_calls] == [("a", "{}"), ("b", "{}")]


def test_paragraphs_of_a_summary_stay_apart() -> None:
    item: Json = {"type": "reasoning", "id": "rs_1", "summary": NONE, "encrypted_content": "g"}
    pieces: list[Json] = [
        {
            "type": "response.reasoning_summary_text.delta",
            "output_index": 0,
            "summary_index": at,
            "delta": text,
        }
        for at, text in ((0, "One"), (0, " more."), (1, "Two."))
    ]
    ends: list[Json] = [{"type": "response.output_item.done", "output_index": 0, "item": item}]

    choice = only_choice(translate(OPENAI, STREAM, [events_of([*pieces, *ends, END])]))

    assert choice.reasoning == "One more.\n\nTwo."


@given(st.data())
def test_a_stream_gives_the_same_events_in_any_pieces(data: st.DataObject) -> None:
    names = ["chat-stream-search", "chat-stream-thought-and-tools", "chat-stream-refusal"]
    request, body = answered(data.draw(st.sampled_from(names)))
    cuts = sorted(data.draw(st.sets(st.integers(1, len(body) - 1), max_size=8)))
    pieces = [body[a:b] for a, b in pairwise([0, *cuts, len(body)])]

    assert translate(OPENAI, request, pieces) == translate(OPENAI, request, [body])


ODD = st.recursive(
    st.none() | st.booleans() | st.integers(-1, 3) | st.sampled_from(["", "x", "{}", "message"]),
    lambda inner: (
        st.lists(inner, max_size=2)
        | st.dictionaries(
            st.sampled_from(["type", "text", "status", "output", "error", "content", "usage"]),
            inner,
            max_size=3,
        )
    ),
    max_leaves=5,
)
KINDS = (
    "response.created",
    "response.output_item.added",
    "response.output_item.done",
    "response.output_text.delta",
    "response.refusal.delta",
    "response.function_call_arguments.delta",
    "response.reasoning_summary_text.delta",
    "response.reasoning_text.delta",
    "response.completed",
    "response.incomplete",
    "response.failed",
    "error",
    "new",
)
ITEMS = st.fixed_dictionaries(
    {"type": st.sampled_from(["message", "reasoning", "function_call", "custom_tool_call", "new"])},
    optional=dict.fromkeys(("content", "summary", "arguments", "call_id", "input", "id"), ODD),
)
EVENTS = st.fixed_dictionaries(
    {"type": st.sampled_from(KINDS)},
    optional={
        **dict.fromkeys(("output_index", "delta", "response", "error", "item"), ODD),
        "item": ITEMS,
        "response": st.fixed_dictionaries({}, optional={"output": st.lists(ITEMS), "status": ODD}),
    },
)


@given(st.lists(EVENTS, max_size=6))
def test_odd_events_are_an_answer_or_a_known_error(events: list[Json]) -> None:
    with suppress(GatewayError):
        assert isinstance(translate(OPENAI, STREAM, [events_of(events)])[0], Started)
