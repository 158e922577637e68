"""Reasoning that clients return in the next turn, block by block, and tool-call signatures."""

from typing import Any, cast

import msgspec
import pytest
from msgspec import Raw

from strowger_gateway.gateway.surfaces.openai.parse import parse_chat
from strowger_gateway.schemas.answers import Fold
from strowger_gateway.schemas.errors import InvalidRequest
from strowger_gateway.schemas.events import Event, Finished, ReasoningDelta, TextDelta, ToolDelta
from strowger_gateway.schemas.messages import CLAUDE, GEMINI, Message, Thought, thoughts_of
from tests.gateway.surfaces.answers import STOP, chat_renderer, decoded, folded

TWO_BLOCKS: tuple[Event, ...] = (
    ReasoningDelta(text="two "),
    ReasoningDelta(text="and two"),
    ReasoningDelta(text="", signature="s1"),
    ReasoningDelta(text="", data="c2VjcmV0", block=1),
    TextDelta(text="4"),
    STOP,
)
DETAILS = [
    {"type": "reasoning.text", "text": "two and two", "signature": "s1", "index": 0},
    {"type": "reasoning.encrypted", "data": "c2VjcmV0", "index": 1},
]


def message(*events: Event) -> dict[str, object]:
    body = msgspec.json.decode(chat_renderer().answer(folded(*events)))
    return cast("dict[str, object]", body["choices"][0]["message"])


def deltas(*events: Event) -> list[dict[str, Any]]:
    found = [cast("dict[str, object]", one) for one in decoded(chat_renderer().events(events))]
    choices = [cast("list[dict[str, object]]", chunk["choices"])[0] for chunk in found]
    return [cast("dict[str, Any]", choice["delta"]) for choice in choices]


def read(**fields: object) -> Message:
    asked = {"role": "user", "content": "x"}
    body = {"model": "m", "messages": [asked, {"role": "assistant", **fields}]}
    return parse_chat(msgspec.json.encode(body)).messages[1]


def test_a_whole_answer_has_each_block_with_its_proof() -> None:
    said = message(*TWO_BLOCKS)

    assert said["reasoning"] == said["reasoning_content"] == "two and two"
    assert said["reasoning_details"] == DETAILS


def test_a_stream_has_each_block_whole_where_it_ends() -> None:
    said = [one["reasoning_details"] for one in deltas(*TWO_BLOCKS) if "reasoning_details" in one]

    assert said == [[DETAILS[0]], [DETAILS[1]]]


def test_a_stream_has_the_blocks_without_a_proof_as_well_if_any_has_one() -> None:
    events = (
        ReasoningDelta(text="read"),
        ReasoningDelta(text="able", block=0),
        ReasoningDelta(text="", signature="s1", format=GEMINI, block=1),
        ReasoningDelta(text="later", block=2),
        TextDelta(text="4"),
        STOP,
    )

    found = [detail for one in deltas(*events) for detail in one.get("reasoning_details", ())]

    assert found == message(*events)["reasoning_details"]
    assert [one.get("text") for one in found] == ["readable", "", "later"]


def test_thinking_that_is_not_needed_again_has_no_blocks() -> None:
    events = (ReasoningDelta(text="hm"), TextDelta(text="4"), STOP)

    assert "reasoning_details" not in message(*events)
    assert not any("reasoning_details" in one for one in deltas(*events))


def test_what_an_answer_had_comes_back_as_it_was() -> None:
    returned = read(content="4", reasoning_details=message(*TWO_BLOCKS)["reasoning_details"])

    assert thoughts_of(returned) == (
        Thought(text="two and two", signature="s1"),
        Thought(data="c2VjcmV0"),
    )


def test_blocks_have_more_than_the_text_next_to_them() -> None:
    detail = {"type": "reasoning.summary", "summary": "sums", "format": "x", "id": None}

    returned = read(content="4", reasoning="sums", reasoning_details=[detail])

    assert thoughts_of(returned) == (Thought(text="sums", format="x"),)


@pytest.mark.parametrize(("format", "flat"), [("", "s"), (CLAUDE, "s"), (GEMINI, None)])
def test_only_a_signature_that_claude_accepts_has_no_format(format: str, flat: str | None) -> None:
    events = (ReasoningDelta(text="hm", signature="s", format=format), TextDelta(text="4"), STOP)

    reported = [message(*events), *deltas(*events)]

    flats = [one["reasoning_signature"] for one in reported if "reasoning_signature" in one]
    assert flats == ([] if flat is None else [flat] * 2)
    assert sum("reasoning_details" in one for one in reported) == 2


def test_thinking_without_blocks_is_one_block() -> None:
    returned = read(content="4", reasoning="hm", reasoning_signature="s")

    assert thoughts_of(returned) == (Thought(text="hm", signature="s"),)
    assert thoughts_of(read(content="4")) == ()


def test_a_block_that_is_none_is_refused_by_its_path() -> None:
    with pytest.raises(InvalidRequest) as caught:
        read(content="4", reasoning_details=[{"type": "reasoning.text", "text": 5}])

    assert caught.value.param == "messages[1].reasoning_details[0].text"


def test_blocks_of_several_choices_are_kept_apart() -> None:
    fold = Fold()
    fold.add(
        [
            ReasoningDelta(text="a", index=0),
            ReasoningDelta(text="b", index=1, signature="t"),
            Finished(reason="stop", index=0),
            Finished(reason="stop", index=1),
        ]
    )

    first, second = fold.answer().choices
    assert first.thoughts == [Thought(text="a")]
    assert second.thoughts == [Thought(text="b", signature="t")]


CALL = ToolDelta(tool=0, id="c1", name="look", arguments="{}", signature="c2ln")
EXTRA = {"google": {"thought_signature": "c2ln"}}


def test_the_proof_of_a_call_goes_out_with_it() -> None:
    called = cast("list[dict[str, object]]", message(CALL, STOP)["tool_calls"])
    streamed = [one["tool_calls"] for one in deltas(CALL, STOP) if "tool_calls" in one]

    assert called[0]["extra_content"] == EXTRA
    assert cast("list[list[dict[str, object]]]", streamed)[0][0]["extra_content"] == EXTRA


def test_the_proof_of_a_call_comes_back() -> None:
    function = {"name": "look", "arguments": "{}"}
    call = {"id": "c1", "type": "function", "function": function, "extra_content": EXTRA}

    assert read(tool_calls=[call]).tool_calls[0].signature == "c2ln"


def test_a_call_without_a_proof_has_no_place_for_one() -> None:
    plain = msgspec.structs.replace(CALL, signature="")

    called = cast("list[dict[str, object]]", message(plain, STOP)["tool_calls"])
    assert "extra_content" not in called[0]
    assert read(content="4").raw != Raw(b"")
