"""Tool calls in texts that arrive in pieces: the same calls however they are cut."""

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import UNSET, Struct

from strowger_gateway.local_engine.answer_formats.call_parser import ToolCallParser
from strowger_gateway.local_engine.answer_formats.calls import Functions
from strowger_gateway.local_engine.answer_formats.catalogue import (
    GENERIC,
    HERMES,
    LLAMA,
    MISTRAL,
    MISTRAL_NAMED,
    QWEN_XML,
    format_of,
)
from strowger_gateway.local_engine.answer_formats.formats import ToolFormat
from strowger_gateway.schemas.events import Event, TextDelta, ToolDelta

FUNCTIONS = Functions({"weather": UNSET, "now": UNSET})
CITY = '{"city": "a \\"}</tool_call>] ö"}'


class Parsed(Struct, frozen=True, kw_only=True):
    """calls: name and arguments."""

    text: str = ""
    calls: tuple[tuple[str, str], ...] = ()


class Case(Struct, frozen=True, kw_only=True):
    format: ToolFormat
    text: str
    expected: Parsed
    guaranteed: bool = False
    required: bool = False
    cut: bool = False


def calls(*found: tuple[str, str], text: str = "") -> Parsed:
    return Parsed(text=text, calls=found)


def hermes(name: str, arguments: str) -> str:
    return f'<tool_call>\n{{"name": "{name}", "arguments": {arguments}}}\n</tool_call>'


TWICE = hermes("weather", CITY) + "\n" + hermes("now", "{}")
BOTH = (("weather", CITY), ("now", "{}"))
LISTED = f'[{{"name": "weather", "arguments": {CITY}}}, {{"name": "now", "arguments": {{}}}}]'
BARE = f'{{"name": "weather", "parameters": {CITY}}}; {{"name": "now", "parameters": {{}}}}'
CASES = {
    "no call": Case(format=HERMES, text=" 1 < 2 \n", expected=Parsed(text=" 1 < 2 \n")),
    "hermes": Case(format=HERMES, text=TWICE, expected=calls(*BOTH)),
    "text first": Case(
        format=HERMES, text=f"I see <.\n{TWICE}", expected=calls(*BOTH, text="I see <.")
    ),
    "text after": Case(
        format=HERMES, text=hermes("now", "{}") + " so", expected=calls(("now", "{}"), text=" so")
    ),
    "sure": Case(
        format=HERMES, text=f"I.\n{TWICE} so", expected=calls(*BOTH, text="I. so"), guaranteed=True
    ),
    "demanded": Case(
        format=HERMES, text=TWICE, expected=calls(*BOTH), guaranteed=True, required=True
    ),
    "no arguments": Case(
        format=HERMES,
        text='<tool_call>{"name": "now"}</tool_call>',
        expected=calls(("now", "{}")),
    ),
    "arguments in quotes": Case(
        format=HERMES,
        text='<tool_call>{"arguments": "{\\"a\\": 1}", "name": "now"}</tool_call>',
        expected=calls(("now", '{"a": 1}')),
    ),
    "not closed": Case(
        format=HERMES,
        text='<tool_call>{"name": "now", "arguments": {}}',
        expected=calls(("now", "{}")),
    ),
    "cut short": Case(
        format=HERMES,
        text='<tool_call>\n{"name": "now", "argum',
        expected=Parsed(text='<tool_call>\n{"name": "now", "argum'),
    ),
    "no JSON": Case(
        format=HERMES,
        text="<tool_call>now()</tool_call>.",
        expected=Parsed(text="<tool_call>now()</tool_call>."),
    ),
    "wrong JSON": Case(
        format=HERMES,
        text='<tool_call>{"name": now</tool_call>.' + hermes("now", "{}"),
        expected=calls(("now", "{}"), text='<tool_call>{"name": now</tool_call>.'),
    ),
    "unknown function": Case(
        format=HERMES,
        text=hermes("delete", "{}"),
        expected=calls(("delete", "{}")),
    ),
    "arguments are not an object": Case(
        format=HERMES, text=hermes("now", "[1]"), expected=Parsed(text=hermes("now", "[1]"))
    ),
    "half a marker": Case(format=HERMES, text="a <tool_", expected=Parsed(text="a <tool_")),
    "mistral": Case(
        format=MISTRAL, text=f"I see.[TOOL_CALLS]{LISTED}", expected=calls(*BOTH, text="I see.")
    ),
    "mistral, sure": Case(
        format=MISTRAL, text=f"[TOOL_CALLS]{LISTED}", expected=calls(*BOTH), guaranteed=True
    ),
    "mistral, demanded": Case(
        format=MISTRAL,
        text=f"[TOOL_CALLS]{LISTED}",
        expected=calls(*BOTH),
        guaranteed=True,
        required=True,
    ),
    "mistral, wrong": Case(
        format=MISTRAL, text="[TOOL_CALLS][1, 2] x", expected=Parsed(text="[TOOL_CALLS][1, 2] x")
    ),
    "llama": Case(format=LLAMA, text=BARE, expected=calls(*BOTH)),
    "llama, marked": Case(format=LLAMA, text=f"<|python_tag|>{BARE}", expected=calls(*BOTH)),
    "llama, code": Case(
        format=LLAMA, text="<|python_tag|>print(1)", expected=Parsed(text="<|python_tag|>print(1)")
    ),
    "llama, text": Case(format=LLAMA, text=f" no {BARE}", expected=Parsed(text=f" no {BARE}")),
    "llama, other JSON": Case(format=LLAMA, text='{"a": 1} b', expected=Parsed(text='{"a": 1} b')),
    "llama, demanded": Case(
        format=LLAMA, text=BARE, expected=calls(*BOTH), guaranteed=True, required=True
    ),
    "llama, cut short": Case(
        format=LLAMA,
        text=f'{BARE}; {{"name": "now',
        expected=calls(*BOTH),
        guaranteed=True,
        required=True,
        cut=True,
    ),
    "generic": Case(format=GENERIC, text=BARE, expected=calls(*BOTH)),
}


def read(case: Case, pieces: Sequence[str]) -> list[Event]:
    reader = ToolCallParser(
        case.format, FUNCTIONS, guaranteed=case.guaranteed, required=case.required, index=3
    )
    events = [event for piece in pieces for event in reader.feed(piece)]
    events += reader.close(cut=case.cut)
    assert reader.calls == len({event.tool for event in events if isinstance(event, ToolDelta)})
    return events


def folded(events: Sequence[Event]) -> Parsed:
    """Fold the events; check that every call begins once, in order, before its arguments."""
    found: list[tuple[str, str]] = []
    text = ""
    for event in events:
        assert isinstance(event, TextDelta | ToolDelta)
        assert event.index == 3
        if isinstance(event, TextDelta):
            assert event.text
            text += event.text
        elif event.name:
            assert event.id
            assert event.tool == len(found)
            found.append((event.name, event.arguments))
        else:
            assert event.tool == len(found) - 1
            found[-1] = (found[-1][0], found[-1][1] + event.arguments)
    return Parsed(text=text, calls=tuple(found))


@pytest.mark.parametrize("name", CASES)
def test_calls_and_text_are_found(name: str) -> None:
    case = CASES[name]

    events = read(case, [case.text])

    assert folded(events) == case.expected


@pytest.mark.parametrize("name", CASES)
def test_it_does_not_matter_how_the_text_is_cut(name: str) -> None:
    case = CASES[name]
    text = case.text

    for cut in range(1, len(text)):
        assert folded(read(case, [text[:cut], text[cut:]])) == case.expected

    assert folded(read(case, list(text))) == case.expected


@given(
    case=st.sampled_from(list(CASES.values())),
    cuts=st.sets(st.integers(0, 200), max_size=12),
    more=st.text('<tol_ca>/[TOLCS]{}":, name\n', max_size=12),
)
def test_any_text_gives_the_same_however_it_is_cut(case: Case, cuts: set[int], more: str) -> None:
    text = case.text if case.guaranteed else more + case.text
    places = sorted(cut for cut in cuts if cut <= len(text))
    pieces = [text[a:b] for a, b in zip([0, *places], [*places, len(text)], strict=True)]

    assert folded(read(case, pieces)) == folded(read(case, [text]))


@given(text=st.text('<tol_ca>/{}": name\n', max_size=60))
def test_text_that_holds_no_call_comes_out_as_it_went_in(text: str) -> None:
    case = Case(format=HERMES, text=text, expected=Parsed())

    assert folded(read(case, list(text))) == Parsed(text=text)


def test_arguments_guaranteed_by_a_grammar_are_streamed() -> None:
    case = CASES["demanded"]

    events = read(case, list(case.text))

    pieces = [event.arguments for event in events if isinstance(event, ToolDelta)]
    assert len(pieces) > len(CITY)


@pytest.mark.parametrize(
    ("template", "format"),
    [
        ("{{ '<tool_call>' }}", HERMES),
        ("{{ '<tool_call>\n<function=x><parameter=y>' }}", QWEN_XML),
        ("[TOOL_CALLS]", MISTRAL),
        ("[TOOL_CALLS]{{ name }}[ARGS]", MISTRAL_NAMED),
        ("<|python_tag|>", LLAMA),
        ('{"name": function name, "parameters": dictionary of argument name', LLAMA),
        ("{{ tools }}", GENERIC),
    ],
)
def test_the_format_of_calls_follows_from_the_chat_template(
    template: str, format: ToolFormat
) -> None:
    assert format_of(template) is format


def test_ids_are_of_the_length_that_the_models_template_wants() -> None:
    ids = {MISTRAL.new_id() for _ in range(100)}

    assert len(ids) == 100
    assert all(len(id) == 9 and id.isalnum() for id in ids)
    assert HERMES.new_id().startswith("call_")
