"""Read tool calls that are JSON objects: exactly where they are JSON, else what is nearly JSON."""

import re
from collections.abc import Sequence
from typing import cast

import msgspec
from msgspec import Raw

from strowger_gateway.local_engine.answer_formats.calls import Call, Functions, Item
from strowger_gateway.local_engine.answer_formats.formats import JsonBody
from strowger_gateway.local_engine.answer_formats.loose_values import (
    Loose,
    Malformed,
    loose_value,
    written,
)
from strowger_gateway.local_engine.answer_formats.value_end import JSON, ValueEnd

_NAMES = ("name", "tool_name", "function")
_ARGUMENTS = ("arguments", "parameters", "args", "function")
_OTHERS = ("type", "id", "tool_call_id", "index")
_OPEN = 2
"""Closing brackets around the arguments that may be missing: the call's, and its list's."""

_objects: msgspec.json.Decoder[dict[str, Raw] | list[dict[str, Raw]]] = msgspec.json.Decoder(
    dict[str, Raw] | list[dict[str, Raw]]
)
_object = msgspec.json.Decoder(dict[str, object])
_string = msgspec.json.Decoder(str)
_FIRST_KEY = re.compile(r"\[?\s*\{\s*[\"']([^\"']*)[\"']\s*:")
_LOOSE = Loose()


def begins_json(text: str) -> bool | None:
    """Return whether a call or a list of calls begins here, `None` if that is not known yet."""
    if text.startswith("{"):
        return True
    if not text.startswith("["):
        return False
    inside = text[1:].lstrip()
    return inside.startswith("{") if inside else None


class JsonReader:
    """See CallReader."""

    def __init__(
        self, body: JsonBody, closes: Sequence[str], functions: Functions, *, known: bool
    ) -> None:
        """known: only objects that name a known function are calls."""
        self._body = body
        self._closes = closes
        self._functions = functions
        self._known = known
        self._end = ValueEnd(JSON)

    def read(self, text: str, *, last: bool) -> Item | None:
        if self._known and self._other(text):
            return Item(count=max(self._end.at, 1))
        end = self._end
        end.advance(text, last=last)
        if end.done:
            return Item(count=end.at, calls=self._calls(text[: end.at]))
        if end.wrong:
            rest = text[end.at :]
            if any(rest.startswith(close) for close in self._closes):
                return Item(count=end.at, calls=self._calls(text[: end.at]))
            if not last and any(close.startswith(rest) for close in self._closes):
                return None
            return Item(count=max(end.at, 1))
        return Item(count=len(text), calls=self._calls(text)) if last else None

    def _other(self, text: str) -> bool:
        """True as soon as an object is certainly not a call."""
        found = _FIRST_KEY.match(text)
        if found is None or found.group(1) in self._functions:
            return False
        return found.group(1) not in (
            self._body.name,
            self._body.arguments,
            *_NAMES,
            *_ARGUMENTS,
            *_OTHERS,
        )

    def _calls(self, text: str) -> tuple[Call, ...] | None:
        found = self._exact(text)
        if found is None:
            found = self._loose(text)
        if not found or (self._known and any(one.name not in self._functions for one in found)):
            return None
        return tuple(found)

    def _exact(self, text: str) -> list[Call] | None:
        """Return the calls with their arguments as written."""
        try:
            read = _objects.decode(text)
            objects: list[dict[str, Raw]] = read if isinstance(read, list) else [read]
            found = [self._exact_call(one) for one in objects]
        except (msgspec.DecodeError, RecursionError):
            return None
        return [one for one in found if one is not None] if None not in found else None

    def _exact_call(self, call: dict[str, Raw]) -> Call | None:
        if len(call) == 1 and (name := next(iter(call))) in self._functions:
            return _called(name, bytes(call[name]).decode())
        inner = call.get("function")
        if inner is not None and bytes(inner).startswith(b"{"):
            return self._exact_call(msgspec.json.decode(inner, type=dict[str, Raw]))
        names = (call[key] for key in (self._body.name, *_NAMES) if key in call)
        keys = (key for key in (self._body.arguments, *_ARGUMENTS) if key in call)
        name = next((_string.decode(raw) for raw in names), "")
        key = next((key for key in keys if key not in _NAMES), "")
        return _called(name, bytes(call[key]).decode() if key else "{}") if name else None

    def _loose(self, text: str) -> list[Call] | None:
        try:
            read = loose_value(text, _LOOSE, open=_OPEN if text.startswith("[") else 1)
        except Malformed:
            return None
        objects = cast(list[object], read) if isinstance(read, list) else [read]
        found = [self._loose_call(one) for one in objects]
        return [one for one in found if one is not None] if None not in found else None

    def _loose_call(self, read: object) -> Call | None:
        if not isinstance(read, dict):
            return None
        call = cast(dict[str, object], read)
        if len(call) == 1 and (name := next(iter(call))) in self._functions:
            return _called(name, written(call[name]))
        if isinstance(call.get("function"), dict):
            return self._loose_call(call["function"])
        names = (call[key] for key in (self._body.name, *_NAMES) if key in call)
        keys = (key for key in (self._body.arguments, *_ARGUMENTS) if key in call)
        name = next(names, "")
        key = next((key for key in keys if key not in _NAMES), "")
        if not isinstance(name, str) or not name:
            return None
        return _called(name, written(call[key]) if key else "{}")


def _called(name: str, text: str) -> Call | None:
    arguments = arguments_of(text)
    return None if arguments is None else Call(name=name, arguments=arguments)


def arguments_of(text: str) -> str | None:
    """Return arguments as the text of a JSON object; `None` if they are none.

    Exact JSON is returned as written; some models write the object as a string.
    """
    plain = text.strip()
    if plain in ("", "null", '""'):
        return "{}"
    try:
        if plain.startswith('"'):
            return arguments_of(_string.decode(plain))
        _object.decode(plain)
    except (msgspec.DecodeError, RecursionError):
        try:
            value = loose_value(plain, _LOOSE)
        except Malformed:
            return None
        return written(cast(object, value)) if isinstance(value, dict) else None
    return plain
