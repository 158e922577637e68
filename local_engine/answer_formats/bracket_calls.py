"""Read tool calls that are a name and bracketed arguments: Python's calls, and Gemma's."""

import re
from typing import cast

from strowger_gateway.local_engine.answer_formats.calls import Call, Functions, Item
from strowger_gateway.local_engine.answer_formats.formats import KeyedBody
from strowger_gateway.local_engine.answer_formats.loose_values import (
    Loose,
    LooseReader,
    Malformed,
    loose_value,
    written,
)
from strowger_gateway.local_engine.answer_formats.value_end import PYTHON, ValueEnd, keyed

_CALL = re.compile(r"\[?\s*[A-Za-z_][\w.\-]{0,255}\s*\(")
_PARTIAL = re.compile(r"\[?\s*(?:[A-Za-z_][\w.\-]{0,255}\s*)?")
_KEYED = re.compile(r"call:\s*([\w.\-]{1,256})\s*(?=\{)")
_KEYED_PARTIAL = re.compile(r"call:\s*[\w.\-]{0,256}\s*")
_PYTHON = Loose(python=True)


def begins_python(text: str) -> bool | None:
    """Return whether a call or a list of calls begins here, `None` if that is not known yet."""
    if _CALL.match(text):
        return True
    return None if _PARTIAL.fullmatch(text) else False


def begins_keyed(text: str) -> bool | None:
    """Return whether a call begins here, `None` if that is not known yet."""
    if _KEYED.match(text):
        return True
    return None if "call:".startswith(text) or _KEYED_PARTIAL.fullmatch(text) else False


class PythonReader:
    """See CallReader. known: only calls of known functions are calls."""

    def __init__(self, functions: Functions, *, known: bool) -> None:
        self._functions = functions
        self._known = known
        self._end = ValueEnd(PYTHON)

    def read(self, text: str, *, last: bool) -> Item | None:
        end = self._end
        end.advance(text, last=last)
        if not end.done:
            return Item(count=max(end.at, 1)) if end.wrong else _open(text, last=last)
        try:
            calls = _python_calls(text[: end.at])
        except Malformed:
            return Item(count=end.at)
        unknown = self._known and any(call.name not in self._functions for call in calls)
        return Item(count=end.at, calls=None if unknown or not calls else tuple(calls))


class KeyedReader:
    """See CallReader."""

    def __init__(self, body: KeyedBody) -> None:
        self._loose = Loose(quote=body.quote, words=True)
        self._notation = keyed(body.quote)
        self._end: ValueEnd | None = None
        self._name = ""
        self._begin = 0

    def read(self, text: str, *, last: bool) -> Item | None:
        if self._end is None:
            found = _KEYED.match(text)
            if found is None:
                return Item(count=len(text))
            self._name, self._begin = found.group(1), found.end()
            self._end = ValueEnd(self._notation, self._begin)
        end = self._end
        end.advance(text, last=last)
        if not end.done:
            return Item(count=max(end.at, 1)) if end.wrong else _open(text, last=last)
        try:
            value = loose_value(text[self._begin : end.at], self._loose)
        except Malformed:
            return Item(count=end.at)
        arguments = written(cast(dict[str, object], value))
        return Item(count=end.at, calls=(Call(name=self._name, arguments=arguments),))


def _open(text: str, *, last: bool) -> Item | None:
    return Item(count=len(text)) if last else None


def _python_calls(text: str) -> list[Call]:
    """Read `f(a=1)` or `[f(a=1), g()]`. Raises Malformed."""
    reader = LooseReader(text, _PYTHON)
    listed = reader.take("[")
    found: list[Call] = []
    while True:
        found.append(_python_call(reader))
        if not listed:
            break
        comma = reader.take(",")
        if reader.take("]"):
            break
        if not comma:
            raise Malformed("a comma is missing")
    if reader.blanks():
        raise Malformed("text after the calls")
    return found


def _python_call(reader: LooseReader) -> Call:
    name = reader.word()
    if not reader.take("("):
        raise Malformed("arguments are missing")
    arguments: dict[str, object] = {}
    while not reader.take(")"):
        key = reader.word()
        if not reader.take("="):
            raise Malformed("an argument has no name")
        arguments[key] = reader.value()
        if not reader.take(",") and reader.blanks() != ")":
            raise Malformed("a comma is missing")
    return Call(name=name, arguments=written(arguments))
