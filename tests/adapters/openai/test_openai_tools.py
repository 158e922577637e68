"""Tool calls are emitted with indexes from 0, an id, a name and JSON arguments."""

import msgspec
import pytest

from strowger_gateway.schemas.events import Finished, ToolDelta
from strowger_gateway.schemas.messages import ToolCall
from tests.adapters.chats import folded
from tests.adapters.openai.openai_doubles import Json, call, delta, message, streamed, whole

TEXT = delta({"role": "assistant", "content": "Let me look."})
TOOLS = delta(finish="tool_calls")


def calls(*chunks: Json) -> list[ToolCall]:
    return folded(streamed(TEXT, *chunks, TOOLS)).choices[0].tool_calls


def test_two_calls_after_text_count_from_zero_and_join_to_json() -> None:
    found = calls(
        call("", id="a", name="look"),
        call('{"at":'),
        call('"sea"}'),
        call("{}", index=1, id="b", name="now"),
    )

    assert found == [
        ToolCall(id="a", name="look", arguments='{"at":"sea"}'),
        ToolCall(id="b", name="now", arguments="{}"),
    ]


def test_indexes_that_count_other_things_are_renumbered() -> None:
    found = streamed(TEXT, call("{}", index=1, id="a", name="f"), TOOLS)

    assert [one.tool for one in found if isinstance(one, ToolDelta)] == [0]


@pytest.mark.parametrize("arguments", ["", None, " "])
def test_a_call_without_arguments_ends_with_an_empty_object(arguments: str | None) -> None:
    found = streamed(TEXT, call(arguments, id="a", name="f"), TOOLS)

    deltas = [one.arguments for one in found if isinstance(one, ToolDelta)]
    assert msgspec.json.decode("".join(deltas)) == {}
    assert isinstance(found[-1], Finished)


def test_calls_without_indexes_are_distinguished_by_id() -> None:
    found = calls(
        call('{"a":', index=None, id="a", name="f"),
        call("1}", index=None),
        call("{}", index=None, id="b", name="g"),
    )

    assert [(one.name, one.arguments) for one in found] == [("f", '{"a":1}'), ("g", "{}")]


def test_parallel_calls_that_all_have_index_zero_are_distinguished_by_id() -> None:
    found = calls(call('{"a":1}', id="a", name="f"), call('{"b":2}', id="b", name="f"))

    assert [(one.id, one.arguments) for one in found] == [("a", '{"a":1}'), ("b", '{"b":2}')]


def test_an_id_and_name_repeated_on_every_piece_are_one_call() -> None:
    found = streamed(TEXT, call('{"a":', id="a", name="f"), call("1}", id="a", name="f"), TOOLS)

    deltas = [one for one in found if isinstance(one, ToolDelta)]
    assert [(one.id, one.name, one.arguments) for one in deltas] == [
        ("a", "f", '{"a":'),
        ("", "", "1}"),
    ]


def test_a_call_without_an_id_gets_a_generated_one() -> None:
    found = calls(call("{}", name="f"), call("{}", index=1, name="f"))

    assert [one.id for one in found] == ["call_c1_0_0", "call_c1_0_1"]


def test_calls_without_index_and_id_are_distinguished_by_name() -> None:
    found = calls(call("{}", index=None, name="f"), call("{}", index=None, name="g"))

    assert [one.name for one in found] == ["f", "g"]


def test_a_name_that_comes_late_waits_for_nothing_but_itself() -> None:
    found = streamed(TEXT, call("{", id="a"), call("}", name="f"), TOOLS)

    assert [one for one in found if isinstance(one, ToolDelta)] == [
        ToolDelta(tool=0, id="a", name="f", arguments="{}")
    ]


def test_arguments_as_an_object_become_json_text() -> None:
    found = calls(call({"at": "sea"}, id="a", name="f"))

    assert msgspec.json.decode(found[0].arguments) == {"at": "sea"}


def test_numeric_ids_become_text() -> None:
    assert calls(call("{}", id=0, name="f"))[0].id == "0"


@pytest.mark.parametrize("word", ["stop", "eos_token", ""])
def test_an_answer_with_a_tool_call_finishes_as_tool_calls(word: str) -> None:
    found = streamed(TEXT, call("{}", id="a", name="f"), delta(finish=word))

    assert found[-1] == Finished(reason="tool_calls", native=word)


def test_an_answer_cut_off_inside_a_tool_call_still_ends_with_length() -> None:
    found = streamed(TEXT, call('{"a', id="a", name="f"), delta(finish="length"))

    assert found[-1] == Finished(reason="length")


def test_an_empty_list_of_calls_is_not_a_call() -> None:
    found = whole(message({"content": "x", "tool_calls": []}))

    assert found[-1] == Finished(reason="stop")


def test_calls_of_another_kind_are_carried_as_they_are() -> None:
    custom = {"id": "a", "type": "custom", "custom": {"name": "f", "input": "x"}}

    choice = folded(whole(message({"tool_calls": [custom]}, "tool_calls"))).choices[0]

    assert msgspec.json.decode(choice.opaque["tool_calls"]) == [{"index": 0, **custom}]
    assert choice.tool_calls == []


def test_choices_count_their_tools_separately() -> None:
    second = dict(call("{}", id="b", name="g"))
    second["choices"] = [{**second["choices"][0], "index": 1}]  # type: ignore[index]  # built above

    found = streamed(
        TEXT, call("{}", id="a", name="f"), second, TOOLS, delta(finish="stop", index=1)
    )

    assert [(one.index, one.tool) for one in found if isinstance(one, ToolDelta)] == [
        (0, 0),
        (1, 0),
    ]
    assert [one.reason for one in found if isinstance(one, Finished)] == ["tool_calls"] * 2
