"""Reasoning, text and tool calls separated in a text that arrives in pieces."""

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import UNSET, structs

from strowger_gateway.local_engine.answer_formats.catalogue import HERMES, KIMI
from strowger_gateway.local_engine.answer_formats.reasoning import Thinking, thinking_of
from strowger_gateway.local_engine.requests.output_parser import OutputFormat, OutputParser
from strowger_gateway.schemas.answers import Fold
from strowger_gateway.schemas.events import ReasoningDelta

THINK = Thinking(open="<think>", close="</think>")
CALL = '<tool_call>\n{"name": "now", "arguments": {}}\n</tool_call>'
FORM = OutputFormat(thinking=THINK, tools=HERMES, functions={"now": UNSET})
OPENED = OutputFormat(thinking=THINK, opened=True, tools=HERMES, functions={"now": UNSET})

CHANNELS = OutputFormat(channels=True)
ANALYSIS, FINAL = "<|channel|>analysis<|message|>", "<|start|>assistant<|channel|>final<|message|>"


def of(template: str, *, opened: bool = False) -> OutputFormat:
    return OutputFormat(thinking=thinking_of(template), opened=opened)


Parsed = tuple[str, str, int]
"""Reasoning, text, calls."""

CASES: list[tuple[OutputFormat, str, Parsed]] = [
    (FORM, "<think>\nHm <b>.\n</think>\n\nYes. ", ("Hm <b>.", "Yes. ", 0)),
    (FORM, "  <think>Hm</think>Yes", ("Hm", "Yes", 0)),
    (FORM, "<think>\n\n</think>\n\nYes", ("", "Yes", 0)),
    (FORM, "Yes <think>no</think>", ("", "Yes <think>no</think>", 0)),
    (FORM, " <thin", ("", " <thin", 0)),
    (FORM, "<think>Hm </thin", ("Hm </thin", "", 0)),
    (FORM, f"<think>Hm {CALL}</think>\n{CALL}", (f"Hm {CALL}", "", 1)),
    (FORM, f"<think>Hm</think>\nSo:\n{CALL}", ("Hm", "So:", 1)),
    (OPENED, "\nHm\n</think>\n\nYes", ("Hm", "Yes", 0)),
    (OPENED, "Hm", ("Hm", "", 0)),
    (OutputFormat(thinking=THINK), f"<think>a</think>{CALL}", ("a", CALL, 0)),
    (OPENED, "<think>\nHm\n</think>\n\nYes", ("Hm", "Yes", 0)),
    (of("{{ c.split('</think>')[-1] }}", opened=True), "Hm\n</think>\n\nYes", ("Hm", "Yes", 0)),
    (of("{{ c.split('</think>')[-1] }}", opened=True), " Yes, so. ", ("Yes, so.", "Yes, so.", 0)),
    (
        of("{{ c.split('</think>')[-1] }}", opened=True),
        "<think>Hm</think>Yes",
        ("Hm", "Yes", 0),
    ),
    (of("<seed:think></seed:think>"), "<seed:think>Hm</seed:think>Yes", ("Hm", "Yes", 0)),
    (of("[THINK][/THINK]"), "[THINK]Hm[/THINK]Yes", ("Hm", "Yes", 0)),
    (
        of("<|START_THINKING|><|END_THINKING|>"),
        "<|START_THINKING|>Hm<|END_THINKING|><|START_RESPONSE|>Yes.\n<|END_RESPONSE|>",
        ("Hm", "Yes.", 0),
    ),
    (
        of("<|START_THINKING|><|END_THINKING|>"),
        "<|START_RESPONSE|>Yes<|END_RESPONSE|>",
        ("", "Yes", 0),
    ),
    (
        of("Here is my thought process: Here is my response:"),
        "Here's my thought process:\nHm\n\nHere is my response:\nYes",
        ("Hm", "Yes", 0),
    ),
    (of("<|channel>thought <channel|>"), "<|channel>thought\nHm<channel|>Yes", ("Hm", "Yes", 0)),
    (
        of("<think></think><response></response>"),
        "<think>\nHm\n</think>\n\n<response>\nYes\n</response>\n",
        ("Hm", "Yes", 0),
    ),
    (
        of("<think></think><answer></answer>"),
        "<think>Hm</think>An <answer> is a tag.",
        ("Hm", "An <answer> is a tag.", 0),
    ),
    (
        structs.replace(of("<think></think>"), tools=KIMI, functions=FORM.functions),
        "<think>Hm<|tool_calls_section_begin|><|tool_call_begin|>functions.now:0"
        "<|tool_call_argument_begin|>{}<|tool_call_end|><|tool_calls_section_end|>",
        ("Hm", "", 1),
    ),
    (CHANNELS, "Yes, assistant", ("", "Yes, assistant", 0)),
    (CHANNELS, f"{ANALYSIS}Hm\n<|end|>{FINAL}Yes <|x|> ", ("Hm", "Yes <|x|> ", 0)),
    (CHANNELS, f"{ANALYSIS}Hm<|end|>{ANALYSIS}So<|end|>{FINAL}Yes", ("Hm\n\nSo", "Yes", 0)),
    (
        CHANNELS,
        f"{ANALYSIS}Hm<|end|><|start|>assistant<|channel|>commentary to=browser.search "
        f'<|constrain|>json<|message|>{{"q": 1}}<|call|>{FINAL}Yes',
        ('Hm\n\n{"q": 1}', "Yes", 0),
    ),
    (CHANNELS, f"{ANALYSIS}Hm", ("Hm", "", 0)),
    (structs.replace(CHANNELS, opened=True), "and so on", ("", "and so on", 0)),
]


def parsed(form: OutputFormat, pieces: Sequence[str]) -> Parsed:
    reading = OutputParser(form, 0)
    fold = Fold()
    for piece in pieces:
        fold.add(reading.feed(piece))
    fold.add(reading.close())
    choices = fold.answer().choices
    if not choices:
        return "", "", 0
    assert len(choices[0].tool_calls) == reading.calls
    return choices[0].reasoning, choices[0].text or "", reading.calls


@pytest.mark.parametrize(("form", "text", "expected"), CASES)
def test_reasoning_text_and_calls_are_separated(
    form: OutputFormat, text: str, expected: Parsed
) -> None:
    assert parsed(form, [text]) == expected


@pytest.mark.parametrize(("form", "text", "expected"), CASES)
def test_the_result_does_not_depend_on_where_the_text_is_cut(
    form: OutputFormat, text: str, expected: Parsed
) -> None:
    for cut in range(1, len(text)):
        assert parsed(form, [text[:cut], text[cut:]]) == expected

    assert parsed(form, list(text)) == expected


@given(
    form=st.sampled_from([FORM, OPENED]),
    text=st.lists(
        st.sampled_from(["<think>", "</think>", CALL, "<", "/", "think>", " ", "\n", "a", "{"])
    ).map("".join),
)
def test_parsing_by_character_equals_parsing_at_once(form: OutputFormat, text: str) -> None:
    assert parsed(form, list(text)) == parsed(form, [text])


def test_reasoning_is_streamed() -> None:
    reading = OutputParser(OPENED, 2)

    assert reading.feed("Hm. ") == [ReasoningDelta(text="Hm.", index=2)]
    assert reading.reasoning
    assert reading.feed("So") == [ReasoningDelta(text=" So", index=2)]
    reading.feed("</think>")
    assert not reading.reasoning


@pytest.mark.parametrize(
    ("template", "thinking"),
    [
        ("<think>{{ x.split('</think>')[-1] }}", THINK),
        ("{{ x.split('</think>')[-1] }}", structs.replace(THINK, assumed=True)),
        ("{{ messages }}", None),
    ],
)
def test_the_chat_template_shows_whether_a_model_reasons(
    template: str, thinking: Thinking | None
) -> None:
    assert thinking_of(template) == thinking
