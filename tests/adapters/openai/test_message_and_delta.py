"""Choices with both `message` and `delta`: a whole answer reads the one, a stream the other."""

import msgspec
import pytest

from strowger_gateway.schemas.events import Event, OpaqueDelta, ReasoningDelta
from strowger_gateway.schemas.sampling import Sampling
from tests.adapters.chats import folded
from tests.adapters.openai.openai_doubles import (
    CHAT,
    Json,
    delta,
    events,
    message,
    stream,
    streamed,
    whole,
)

ROLE: Json = {"role": "assistant", "content": ""}
TEXT: Json = {"role": "assistant", "content": "Tea."}
THOUGHT: Json = {**TEXT, "reasoning_content": "Hot."}
ODD: Json = {**TEXT, "mood": "calm"}
CALLED: Json = {
    "role": "assistant",
    "content": None,
    "tool_calls": [{"id": "t1", "function": {"name": "f", "arguments": '{"a":1}'}}],
}
STOP = delta(ROLE, "stop")


def text(found: list[Event], index: int = 0) -> str | None:
    return folded(found).choices[index].text


@pytest.mark.parametrize("said", [TEXT, THOUGHT, ODD, CALLED])
@pytest.mark.parametrize("empty", [ROLE, {"role": "assistant"}, {}])
def test_a_whole_answer_is_its_message_with_or_without_an_empty_delta(
    said: Json, empty: Json
) -> None:
    alone = whole(message(said))

    assert whole(message(said, delta=empty)) == alone
    assert len(alone) > 2


def test_a_whole_answer_that_has_only_a_delta_is_read() -> None:
    for empty in ({}, {"message": None}, {"message": ROLE}):
        assert text(whole({"choices": [{"delta": TEXT, "finish_reason": "stop", **empty}]})) == (
            "Tea."
        )


def test_a_whole_message_counts_before_a_delta_that_repeats_a_part_of_it() -> None:
    assert text(whole(message(TEXT, delta={"content": "Te"}))) == "Tea."


@pytest.mark.parametrize("more", [{}, {"mood": "calm"}], ids=["plain", "with unknown fields"])
def test_a_stream_is_its_deltas_and_not_the_message_so_far(more: Json) -> None:
    found = streamed(
        delta(ROLE, message={**ROLE, **more}),
        delta({"content": "Te"}, message={"content": "Te", **more}),
        delta({"content": "a."}, message={"content": "Tea.", **more}),
        delta({"content": ""}, "stop", message={"content": "Tea.", **more}),
    )

    assert text(found) == "Tea."
    assert not [one for one in found if isinstance(one, OpaqueDelta)]


@pytest.mark.parametrize("said", [TEXT, THOUGHT, CALLED])
def test_a_message_at_the_end_of_a_stream_is_not_said_twice(said: Json) -> None:
    pieces = {name: value for name, value in said.items() if name != "role"}

    once = streamed(delta(ROLE), delta(pieces), delta({}, "stop"))

    assert streamed(delta(ROLE), delta(pieces), message(said)) == once
    assert streamed(delta(ROLE), delta(pieces), delta(ROLE, "stop", message=said)) == once


def test_a_stream_that_says_everything_in_its_last_message_is_read() -> None:
    assert text(streamed(delta(ROLE), delta(ROLE, "stop", message=TEXT))) == "Tea."
    assert text(streamed(delta(ROLE), message(TEXT))) == "Tea."
    assert text(events(msgspec.json.encode(message(TEXT, delta=ROLE)), CHAT)) == "Tea."


def test_a_stream_of_messages_instead_of_deltas_is_read() -> None:
    pieces = [message({"content": piece}, None) for piece in ("Te", "a", ".")]

    assert text(streamed(*pieces, message({}, "stop"))) == "Tea."


def test_each_choice_of_a_stream_has_its_own_message() -> None:
    request = msgspec.structs.replace(CHAT, sampling=Sampling(n=2))
    found = events(
        stream(
            delta(ROLE),
            delta(ROLE, index=1),
            delta({"content": "Tea."}),
            delta({"content": "Mi"}, index=1),
            delta({"content": "lk."}, index=1),
            delta(ROLE, "stop", message=TEXT),
            delta(ROLE, "stop", 1, message={"content": "Milk."}),
        ),
        request,
    )

    assert [text(found, index) for index in (0, 1)] == ["Tea.", "Milk."]


def test_reasoning_that_came_in_pieces_is_not_repeated_by_a_message() -> None:
    found = streamed(
        delta({"reasoning_content": "Hot."}),
        delta(TEXT),
        delta(ROLE, "stop", message=THOUGHT),
    )

    assert [one.text for one in found if isinstance(one, ReasoningDelta)] == ["Hot."]
    assert text(found) == "Tea."
