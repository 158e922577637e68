"""Give an answer the client's names and ends, if its request was sent with others."""

from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing
from typing import Final

import msgspec
from msgspec import Raw
from msgspec.structs import replace

from strowger_gateway.adapters.repairs.rule import Undo
from strowger_gateway.gateway.backends.upstream.adaptation.stop_detection import StopRules
from strowger_gateway.gateway.backends.upstream.adaptation.stop_enforcement import (
    ended_at,
    streamed,
)
from strowger_gateway.gateway.backends.upstream.base import Call, Upstream
from strowger_gateway.schemas.events import (
    Event,
    Finished,
    NativeDelta,
    OpaqueDelta,
    TextDelta,
    ToolDelta,
)
from strowger_gateway.schemas.requests import GenerateRequest

_DEPTH: Final = 4
"""Levels of a vendor's JSON in which calls are: parts, a part, its call, the call's name."""

_ARGUMENTS: Final = frozenset({"input", "args", "arguments"})
"""Members of calls, which are the model's words."""

_encode: Final = msgspec.json.Encoder().encode
_items: Final = msgspec.json.Decoder(list[Raw]).decode
_members: Final = msgspec.json.Decoder(dict[str, Raw]).decode
_text: Final = msgspec.json.Decoder(str).decode


def undone(
    upstream: Upstream, request: GenerateRequest, call: Call, undo: Undo
) -> AsyncGenerator[list[Event], None]:
    """Return the batches of an answer as the client asked for it.

    Closing it closes the answer. An answer that the gateway ends is streamed, so that the
    vendor generates no more than a few tokens behind the end.
    """
    if undo.stops:
        rules = StopRules(strings=tuple([one for one in undo.stops if one]))
        source = upstream.generate(streamed(request), call)
        source = ended_at(source, request, rules, upstream.name)
    else:
        source = upstream.generate(request, call)
    if undo.answer_tool:
        source = _as_text(source, undo.answer_tool)
    if undo.one_call:
        source = _with_one_call(source)
    return _named(source, undo) if undo.tools else source


async def _with_one_call(
    source: AsyncGenerator[list[Event], None],
) -> AsyncGenerator[list[Event], None]:
    """Yield the batches without all calls of a choice but its first."""
    async with aclosing(source) as batches:
        async for batch in batches:
            kept = [one for one in batch if not isinstance(one, ToolDelta) or one.tool == 0]
            if kept:
                yield kept


async def _as_text(
    source: AsyncGenerator[list[Event], None], tool: str
) -> AsyncGenerator[list[Event], None]:
    """Yield the batches with the arguments of a function as the answer's text."""
    answer = _AnswerTool(tool)
    async with aclosing(source) as batches:
        async for batch in batches:
            yield [answer.read(event) for event in batch]


class _AnswerTool:
    """Reads one answer. tool: the name of the function that takes the answer's text."""

    def __init__(self, tool: str) -> None:
        self._tool = tool
        self._places: set[tuple[int, int]] = set()
        self._called: set[int] = set()

    def read(self, event: Event) -> Event:
        if isinstance(event, ToolDelta):
            place = event.index, event.tool
            if event.name == self._tool:
                self._places.add(place)
            if place in self._places:
                return TextDelta(text=event.arguments, index=event.index)
            self._called.add(event.index)
        elif (
            isinstance(event, Finished)
            and event.reason == "tool_calls"
            and event.index not in self._called
        ):
            return replace(event, reason="stop")
        return event


async def _named(
    source: AsyncGenerator[list[Event], None], undo: Undo
) -> AsyncGenerator[list[Event], None]:
    async with aclosing(source) as batches:
        async for batch in batches:
            yield _with_names(batch, undo)


def _with_names(batch: Sequence[Event], undo: Undo) -> list[Event]:
    return [_with_name(event, undo.tools) for event in batch]


def _with_name(event: Event, names: Mapping[str, str]) -> Event:
    """Return the event with the client's names, also in what it has of the vendor's JSON."""
    match event:
        case ToolDelta(name=name) if name in names:
            return replace(event, name=names[name])
        case NativeDelta(block=Raw() as block):
            return replace(event, block=_renamed(block, names))
        case OpaqueDelta(fields=fields):
            sent = {field: _renamed(raw, names) for field, raw in fields.items()}
            return replace(event, fields=sent)
        case _:
            return event


def _renamed(raw: Raw, names: Mapping[str, str], depth: int = _DEPTH) -> Raw:
    """Return a part of an answer with the client's names of the functions that it calls."""
    data = bytes(raw)
    if not depth or not any(name.encode() in data for name in names):
        return raw
    match data.lstrip()[:1]:
        case b"[":
            return Raw(_encode([_renamed(one, names, depth - 1) for one in _items(data)]))
        case b"{":
            fields = _members(data)
            for key, value in fields.items():
                if key == "name" and bytes(value)[:1] == b'"':
                    name = _text(value)
                    fields[key] = Raw(_encode(names.get(name, name)))
                elif key not in _ARGUMENTS:
                    fields[key] = _renamed(value, names, depth - 1)
            return Raw(_encode(fields))
        case _:
            return raw
