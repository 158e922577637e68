"""Give an answer the client's names and ends, if its request was sent with others."""

from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing

from msgspec.structs import replace

from adapters.repairs.rule import Undo
from gateway.upstream.adaptation.stop_detection import StopRules
from gateway.upstream.adaptation.stop_enforcement import ended_at, streamed
from gateway.upstream.base import Call, Upstream
from schemas.events import Event, Finished, TextDelta, ToolDelta
from schemas.requests import GenerateRequest


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
    return [
        replace(event, name=undo.tools[event.name])
        if isinstance(event, ToolDelta) and event.name in undo.tools
        else event
        for event in batch
    ]
