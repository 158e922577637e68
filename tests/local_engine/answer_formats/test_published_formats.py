"""Every format: chosen by its template, whole, cut anywhere, and broken in six ways."""

import json
from collections.abc import Sequence
from functools import cache
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Struct

from strowger_gateway.local_engine.answer_formats.catalogue import (
    FORMATS,
    GENERIC,
    HARMONY,
    format_of,
    formats_of,
)
from strowger_gateway.local_engine.answer_formats.reasoning import thinking_of
from strowger_gateway.local_engine.requests.output_parser import OutputFormat, OutputParser
from strowger_gateway.schemas.answers import Fold
from strowger_gateway.schemas.events import Event
from tests.local_engine.answer_formats.published import FUNCTIONS, PARIS, PUBLISHED, Published

Calls = list[tuple[str, object]]


class Parsed(Struct, frozen=True, kw_only=True):
    reasoning: str
    text: str
    calls: Calls


@cache
def output_format(template: str) -> OutputFormat:
    tools = format_of(template)
    return OutputFormat(
        tools=tools,
        functions=FUNCTIONS,
        thinking=thinking_of(template),
        channels=tools is HARMONY,
    )


def parsed(case: Published, pieces: Sequence[str], *, cut: bool = False) -> Parsed:
    parser = OutputParser(output_format(case.template), 0)
    fold = Fold()
    events: list[Event] = []
    for piece in pieces:
        events += parser.feed(piece)
    fold.add([*events, *parser.close(cut=cut)])
    choices = fold.answer().choices
    if not choices:
        return Parsed(reasoning="", text="", calls=[])
    calls = choices[0].tool_calls
    assert len(calls) == parser.calls
    assert len({call.id for call in calls}) == len(calls)
    return Parsed(
        reasoning=choices[0].reasoning,
        text=choices[0].text or "",
        calls=[(call.name, json.loads(call.arguments)) for call in calls],
    )


def expected(case: Published) -> Parsed:
    calls: Calls = [("weather", PARIS), ("now", {})]
    return Parsed(reasoning=case.reasoning, text=case.text, calls=calls)


@cache
def marks(template: str) -> tuple[str, ...]:
    format = format_of(template)
    return (*format.opens, *format.closes, *format.skipped, *format.starts, *format.tokens)


def test_each_format_has_a_published_answer() -> None:
    assert set(PUBLISHED) == {one.name for one in (*FORMATS, GENERIC)}


def test_each_format_is_documented() -> None:
    page = (Path(__file__).parents[3] / "docs" / "engine.md").read_text()

    assert [name for name in PUBLISHED if f"`{name}`" not in page] == []


@pytest.mark.parametrize("name", PUBLISHED)
def test_a_template_shows_one_format(name: str) -> None:
    found = [one.name for one in formats_of(PUBLISHED[name].template)]

    assert found == ([] if name == GENERIC.name else [name])


def test_tokens_show_the_format_where_the_template_does_not() -> None:
    tokens = {"<tool_call>", "[TOOL_CALLS]"}

    assert format_of("{{ tools }}", tokens.__contains__).name == "hermes"
    assert format_of("{{ tools }}<arg_key><tool_call>", tokens.__contains__).name == "glm"
    assert format_of("{{ tools }}", {"functions"}.__contains__) is GENERIC


@pytest.mark.parametrize("name", PUBLISHED)
def test_reasoning_text_and_calls_are_read(name: str) -> None:
    case = PUBLISHED[name]

    assert parsed(case, [case.answer]) == expected(case)


@pytest.mark.parametrize("name", PUBLISHED)
def test_it_does_not_matter_where_a_stream_is_cut(name: str) -> None:
    case = PUBLISHED[name]
    text, whole = case.answer, expected(case)

    for at in range(1, len(text)):
        assert parsed(case, [text[:at], text[at:]]) == whole, text[:at]

    assert parsed(case, list(text)) == whole


@pytest.mark.parametrize("name", PUBLISHED)
def test_a_limit_leaves_no_mark_and_no_half_call(name: str) -> None:
    case = PUBLISHED[name]
    whole = expected(case)

    for at in range(1, len(case.answer)):
        found = parsed(case, [case.answer[:at]], cut=True)
        assert found.calls == whole.calls[: len(found.calls)], case.answer[:at]
        assert whole.reasoning.startswith(found.reasoning.rstrip("\n <[")), case.answer[:at]
        assert not any(mark in found.text for mark in marks(case.template)), case.answer[:at]
        assert whole.text.startswith(found.text.rstrip("\n <[`f")), case.answer[:at]


@pytest.mark.parametrize("name", PUBLISHED)
def test_a_missing_mark_at_the_end_loses_no_call(name: str) -> None:
    case = PUBLISHED[name]

    assert parsed(case, [case.answer.removesuffix(case.end)]) == expected(case)


@pytest.mark.parametrize("name", PUBLISHED)
def test_text_after_calls_is_text(name: str) -> None:
    case = PUBLISHED[name]
    final = "<|start|>assistant<|channel|>final<|message|>" if name == "harmony" else "\n"

    found = parsed(case, list(case.answer + final + "So it is."))

    assert found.calls == expected(case).calls
    assert found.text.removeprefix(case.text).strip() == "So it is."


@pytest.mark.parametrize("name", PUBLISHED)
def test_a_call_of_an_unknown_function_is_a_call_if_it_has_marks(name: str) -> None:
    case = PUBLISHED[name]
    answer = case.answer.replace("weather", "forecast")
    if name == "apertus":  # the name is a key, so it must be known
        return

    found = parsed(case, list(answer))

    names = [call for call, _ in found.calls]
    assert names == ([] if case.bare else ["forecast", "now"]) or (case.bare and names == ["now"])


@pytest.mark.parametrize("name", PUBLISHED)
def test_marks_around_something_else_stay_text(name: str) -> None:
    case = PUBLISHED[name]
    format = format_of(case.template)
    if name == "harmony":
        return
    text = f"So {format.open} is how it begins, and {format.close} how it ends."

    assert parsed(case, list(text)).text == parsed(case, [text]).text
    assert parsed(case, [text]).text.split() == text.split()
    assert parsed(case, [text]).calls == []


@given(data=st.data())
def test_any_mix_of_marks_and_calls_is_read_the_same_however_it_arrives(
    data: st.DataObject,
) -> None:
    case = PUBLISHED[data.draw(st.sampled_from(sorted(PUBLISHED)))]
    halves = (case.answer[: len(case.answer) // 2], case.answer[len(case.answer) // 2 :])
    pieces = (*format_of(case.template).spellings, *halves, *"{}[]\"'()\n ,=<", "now", "now()")
    text = "".join(data.draw(st.lists(st.sampled_from(pieces), max_size=12)))

    whole = parsed(case, [text])

    assert parsed(case, list(text)) == whole
    if not (whole.calls or whole.reasoning or output_format(case.template).reasons):
        assert whole.text == text


@pytest.mark.parametrize("name", PUBLISHED)
def test_an_answer_that_lost_a_character_is_read_the_same_however_it_arrives(name: str) -> None:
    case = PUBLISHED[name]

    for at in range(0, len(case.answer), 11):
        text = case.answer[:at] + case.answer[at + 1 :]
        assert parsed(case, [text]) == parsed(case, list(text)), text
