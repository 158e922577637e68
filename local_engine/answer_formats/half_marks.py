"""Leave out the beginning of a mark at the end of an answer that a limit cut."""

from collections.abc import Iterable

from strowger_gateway.local_engine.answer_formats.calls import BLANK
from strowger_gateway.local_engine.text.stop_strings import overlap

_LEAST = 2
"""Characters that are taken for the beginning of a mark."""


def without_half_a_mark(text: str, marks: Iterable[str]) -> str:
    """Return the text without the beginning of one of the marks at its end, if there is one."""
    partial = max((overlap(text, mark) for mark in marks), default=0)
    return text[:-partial].rstrip(BLANK) if partial >= _LEAST else text
