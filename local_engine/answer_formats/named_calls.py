"""Read tool calls that are a name, a mark, and the arguments as one JSON object."""

import re

from strowger_gateway.local_engine.answer_formats.calls import BLANK, Call, Item
from strowger_gateway.local_engine.answer_formats.formats import NamedBody
from strowger_gateway.local_engine.answer_formats.json_calls import arguments_of
from strowger_gateway.local_engine.answer_formats.value_end import JSON, ValueEnd

LONGEST_NAME = 256
"""Characters."""

NAME = r"[^\s{}\[\]\"'<>(),=]+"
_NAME = re.compile(NAME)
_KIMI = re.compile(r"(?:functions\.)?(.+?)(?::(\d+))?")


def begins_named(body: NamedBody, text: str) -> bool | None:
    """Return whether a call begins here, `None` if that is not known yet."""
    if not text.startswith(body.begin):
        return None if body.begin.startswith(text) else False
    name, mark, _ = text[len(body.begin) :].partition(body.separator.strip())
    if body.id:
        name = name.partition(body.id)[0]
    plain = name.strip()
    if mark:
        return _NAME.fullmatch(plain) is not None
    possible = _NAME.match(plain or "x") is not None and len(name) <= LONGEST_NAME
    return None if possible and "{" not in name else False


class NamedReader:
    """See CallReader. A mark after the arguments is left for the next step."""

    def __init__(self, body: NamedBody) -> None:
        self._body = body
        self._ends = body.end_marks
        self._end: ValueEnd | None = None
        self._begin = 0

    def read(self, text: str, *, last: bool) -> Item | None:
        if self._end is None:
            separator = self._body.separator.strip()
            begin = text.find(separator, len(self._body.begin)) + len(separator)
            begin += len(text[begin:]) - len(text[begin:].lstrip(BLANK))
            if begin == len(text) and not last:
                return None
            self._begin = begin
            self._end = ValueEnd(JSON, begin)
        rest = text[self._begin :]
        if not rest or any(rest.startswith(mark) for mark in self._ends):
            return self._item(text, self._begin)
        if rest.startswith('"'):
            return self._quoted(text, last=last)
        if not rest.startswith("{"):
            waits = not last and any(mark.startswith(rest) for mark in self._ends)
            return None if waits else Item(count=max(self._begin, 1))
        self._end.advance(text, last=last)
        if self._end.done:
            return self._item(text, self._end.at)
        if self._end.wrong:
            return Item(count=self._end.at)
        return Item(count=len(text)) if last else None

    def _quoted(self, text: str, *, last: bool) -> Item | None:
        """Read arguments that are a string; the mark after the call ends them."""
        places = [at for mark in self._ends if (at := text.find(mark, self._begin)) >= 0]
        if not places and not last:
            return None
        return self._item(text, min(places, default=len(text)))

    def _item(self, text: str, end: int) -> Item:
        """Return the call whose arguments end at `end`."""
        arguments = arguments_of(text[self._begin : end])
        if arguments is None:
            return Item(count=max(end, 1))
        name, id = self._named(text)
        return Item(count=max(end, 1), calls=(Call(name=name, arguments=arguments, id=id),))

    def _named(self, text: str) -> tuple[str, str]:
        body = self._body
        written = text[len(body.begin) :].partition(body.separator.strip())[0].strip()
        if body.id:
            name, _, id = written.partition(body.id)
            return name.strip(), id.strip()
        if body.kimi and (found := _KIMI.fullmatch(written)):
            name, place = found.groups()
            return name, f"functions.{name}:{place}" if place else ""
        return written, ""
