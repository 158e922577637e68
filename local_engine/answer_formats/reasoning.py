"""Split the reasoning at the beginning of an answer from the rest."""

from msgspec import Struct

from strowger_gateway.local_engine.answer_formats.calls import BLANK
from strowger_gateway.local_engine.answer_formats.half_marks import without_half_a_mark
from strowger_gateway.local_engine.text.stop_strings import overlap


class Thinking(Struct, frozen=True, kw_only=True):
    """The marks around a model's reasoning.

    answer:  marks around the text after it, which belong to neither; "" if there are none.
    also:    other spellings of `open`.
    assumed: the chat template knows only `close`, so the model reasons without a first mark. An
             answer that ends without `close` was no reasoning after all, and is text as well.
    """

    open: str
    close: str
    answer: tuple[str, str] = ("", "")
    also: tuple[str, ...] = ()
    assumed: bool = False

    @property
    def spellings(self) -> tuple[str, ...]:
        """All that may be a single token."""
        return tuple(mark for mark in (self.open, self.close) if mark)


_THINK = Thinking(open="<think>", close="</think>")
_PHRASES = Thinking(
    open="Here is my thought process:",
    close="Here is my response:",
    also=("Here's my thought process:",),
)

_KNOWN: tuple[tuple[str, Thinking], ...] = (
    ("</seed:think>", Thinking(open="<seed:think>", close="</seed:think>")),
    ("[/THINK]", Thinking(open="[THINK]", close="[/THINK]")),
    (
        "<|END_THINKING|>",
        Thinking(
            open="<|START_THINKING|>",
            close="<|END_THINKING|>",
            answer=("<|START_RESPONSE|>", "<|END_RESPONSE|>"),
        ),
    ),
    ("<channel|>", Thinking(open="<|channel>thought", close="<channel|>")),
    ("<|inner_suffix|>", Thinking(open="<|inner_prefix|>", close="<|inner_suffix|>")),
    ("</thought>", Thinking(open="<thought>", close="</thought>")),
    ("<|end_of_thought|>", Thinking(open="<|begin_of_thought|>", close="<|end_of_thought|>")),
    (_PHRASES.close, _PHRASES),
    ("</think>", _THINK),
)
"""A string that the chat template contains, and the marks that follow from it.

Granite writes phrases, Seed-OSS, Mistral, Cohere, Gemma 4, Apertus and EXAONE Deep marks of their
own, and the others `<think>`.
"""

_ANSWERS = (("<answer>", "</answer>"), ("<response>", "</response>"))
"""Marks of Hunyuan, and of ERNIE and Granite 3.3, around the text after `<think>`."""


def thinking_of(template: str) -> Thinking | None:
    """Return the model's reasoning marks if its chat template mentions them."""
    found = next((one for sign, one in _KNOWN if sign in template), None)
    if found is None or found is not _THINK:
        return found
    answer = next((one for one in _ANSWERS if all(mark in template for mark in one)), ("", ""))
    assumed = "<think>" not in template
    return Thinking(open=found.open, close=found.close, answer=answer, assumed=assumed)


class ReasoningSplit:
    """Splits a text into the reasoning between the marks at its beginning, and the rest.

    Blanks around the reasoning belong to neither. inside: the model is reasoning.
    """

    def __init__(self, marks: Thinking, *, opened: bool, ends: tuple[str, ...] = ()) -> None:
        """opened: the text begins inside the reasoning. ends: marks that end it as well, and
        belong to the rest."""
        self._marks = marks
        self._opens = (marks.open, *marks.also)
        self._ends = ends
        self._buffer = ""
        self._blank = 0  # characters at the beginning of the buffer that are known to be blank
        self._begins = True
        self.inside = opened
        self._before = True
        self._wrapped = False
        self._after = False
        self._assumed = marks.assumed and opened
        self._thoughts: list[str] = []

    def feed(self, piece: str) -> tuple[str, str]:
        """Return the reasoning and the text that are certain now."""
        self._buffer += piece
        if self._before and not self._begun():
            return "", ""
        if not self.inside:
            return "", self._said()
        thought, said = self._thought()
        if self._assumed:
            self._thoughts.append(thought)
        return thought, said

    def close(self, *, cut: bool = False) -> tuple[str, str]:
        """Return the last reasoning and text. cut: the answer was ended from outside."""
        rest, self._buffer = self._buffer, ""
        if cut:
            marks = (self._marks.close, *self._ends) if self.inside else self._opens
            rest = without_half_a_mark(rest, (*marks, *self._marks.answer))
        if self.inside:
            thought = rest.rstrip(BLANK)
            answered = self._assumed and not cut
            return thought, "".join([*self._thoughts, thought]) if answered else ""
        close = self._marks.answer[1]
        if self._wrapped and rest.rstrip(BLANK) and close.startswith(rest.strip(BLANK)):
            rest = ""
        return "", rest

    def _begun(self) -> bool:
        """True once it is known whether the answer begins with a mark."""
        blank, self._blank = self._blank, 0
        text = self._buffer[blank:].lstrip(BLANK)
        opened = next((one for one in self._opens if text.startswith(one)), None)
        if opened is not None:
            self._buffer = text[len(opened) :]
            self.inside = True
            self._assumed = False
        elif any(one.startswith(text) for one in self._opens):
            self._blank = len(self._buffer) - len(text)
            return False
        elif not self.inside:
            self._begins = False
            self._after = True
        self._before = False
        return True

    def _thought(self) -> tuple[str, str]:
        text = self._buffer.lstrip(BLANK) if self._begins else self._buffer
        blank, self._blank = self._blank, 0
        stops = (self._marks.close, *self._ends)
        found = [(at, stop) for stop in stops if (at := text.find(stop, blank)) >= 0]
        if not found:
            end = len(text) - max(overlap(text, stop) for stop in stops)
            seen = text[blank:end].rstrip(BLANK)
            shown = text[: blank + len(seen)] if seen else ""
            self._buffer = text[len(shown) :]
            self._blank = 0 if self._begins else end - len(shown)
            self._begins = self._begins and not shown
            return shown, ""
        at, stop = min(found)
        skipped = len(stop) if stop == self._marks.close else 0
        self._buffer = text[at + skipped :]
        self.inside = False
        self._begins = self._after = True
        return text[:at].rstrip(BLANK), self._said()

    def _said(self) -> str:
        open, close = self._marks.answer
        if self._after and open:
            begun = self._buffer.lstrip(BLANK)
            if begun.startswith(open):
                self._buffer = begun[len(open) :]
                self._wrapped = True
            elif open.startswith(begun):
                return ""
            self._after = False
        text = self._buffer.lstrip(BLANK) if self._begins else self._buffer
        self._begins = self._begins and not text
        self._buffer = ""
        return self._unwrapped(text, close) if self._wrapped else text

    def _unwrapped(self, text: str, close: str) -> str:
        """Leave out the mark after the answer."""
        before, found, after = text.partition(close)
        if found:
            self._wrapped = False
            self._begins = not after.strip(BLANK)
            return before.rstrip(BLANK) + after.lstrip(BLANK)
        shown = text[: len(text) - overlap(text, close)].rstrip(BLANK)
        self._buffer = text[len(shown) :]
        return shown
