"""Every answer of Anthropic, even a malformed one, is a known error or can be sent back."""

import json
from contextlib import suppress

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Raw

from strowger_gateway.adapters.testing import request_for, translate
from strowger_gateway.schemas.answers import Answer, Fold
from strowger_gateway.schemas.errors import GatewayError
from strowger_gateway.schemas.messages import Message
from strowger_gateway.schemas.requests import ChatRequest
from tests.adapters.anthropic.anthropic_doubles import ANTHROPIC, HELLO, Json, chat, raw, turns
from tests.adapters.traffic import fixture

SCALARS = st.none() | st.booleans() | st.integers(-1, 3) | st.sampled_from(["", "x", "{", "{}"])
ODD = st.recursive(
    SCALARS,
    lambda inner: (
        st.lists(inner, max_size=2)
        | st.dictionaries(
            st.sampled_from(
                ["type", "text", "input", "usage", "error", "citations", "stop_reason"]
            ),
            inner,
            max_size=3,
        )
    ),
    max_leaves=5,
)
FIELDS = ("index", "message", "content_block", "delta", "usage", "error", "content", "stop_reason")
KINDS = (
    "message_start",
    "content_block_start",
    "content_block_delta",
    "content_block_stop",
    "message_delta",
    "message_stop",
    "error",
    "new",
)
BLOCKS = st.fixed_dictionaries(
    {"type": st.sampled_from(["text", "tool_use", "thinking", "redacted_thinking", "new"])},
    optional=dict.fromkeys(("text", "input", "thinking", "signature", "data", "id"), ODD),
)
EVENTS = st.fixed_dictionaries(
    {"type": st.sampled_from(KINDS)},
    optional={**dict.fromkeys(FIELDS, ODD), "content_block": BLOCKS, "delta": BLOCKS},
)


def survives(body: bytes, request: ChatRequest) -> None:
    """Any other exception fails the test."""
    with suppress(GatewayError):
        translate(ANTHROPIC, request, [body])


@given(st.lists(EVENTS, max_size=6))
def test_a_stream_of_odd_events_is_an_answer_or_a_known_error(events: list[Json]) -> None:
    body = "".join(f"data: {json.dumps(one)}\n\n" for one in events)

    survives(body.encode(), chat(HELLO, stream=True))


@given(st.dictionaries(st.sampled_from(FIELDS), ODD), st.lists(BLOCKS | ODD, max_size=3))
def test_an_odd_complete_answer_is_an_answer_or_a_known_error(fields: Json, content: Json) -> None:
    body = {"stop_reason": "end_turn", **fields, "content": content}

    survives(json.dumps(body).encode(), chat(HELLO))


@pytest.mark.parametrize(
    "name",
    [
        "chat-stream-interleaved",
        "chat-stream-thinking-then-tools",
        "chat-stream-search-and-pause",
        "chat-thinking-and-tools",
    ],
)
def test_an_answer_that_is_sent_back_has_its_original_blocks(name: str) -> None:
    case, fold = fixture(f"anthropic/{name}"), Fold()
    request = request_for(case)
    assert isinstance(request, ChatRequest)
    fold.add(translate(ANTHROPIC, request, [case.body]))
    answer = fold.answer()

    sent = turns(HELLO, sent_back(answer))[1]["content"]

    (choice,) = answer.choices
    if "content_blocks" in choice.opaque:
        assert sent == msgspec.json.decode(choice.opaque["content_blocks"])
    else:
        assert sent == [
            {"type": "thinking", "thinking": "I look it up.", "signature": "c2lnLTE="},
            {"type": "redacted_thinking", "data": "ZW5jcnlwdGVk"},
            {"type": "text", "text": "One moment."},
            {"type": "tool_use", "id": "toolu_1", "name": "weather", "input": {"city": "Bern"}},
            {"type": "tool_use", "id": "toolu_2", "name": "now", "input": {}},
        ]


def sent_back(answer: Answer) -> Message:
    """Return the answer as in the next request; `raw` has what OpenAI's fields lack."""
    (choice,) = answer.choices
    kept = {name: msgspec.json.decode(value) for name, value in choice.opaque.items()}
    return Message(
        role="assistant",
        content=choice.text,
        thoughts=tuple(choice.thoughts),
        tool_calls=tuple(choice.tool_calls),
        raw=raw(kept) if kept else Raw(b"{}"),
    )


def test_a_cache_mark_on_a_message_reaches_a_block_in_anthropics_format() -> None:
    mark: Json = {"cache_control": {"type": "ephemeral"}}
    search: Json = {"type": "web_search_tool_result", "tool_use_id": "s1", "content": []}
    handed = Message(role="assistant", content=None, raw=raw({**mark, "content_blocks": [search]}))

    assert turns(HELLO, handed)[1]["content"] == [{**search, **mark}]
