"""Give an answer the client's names and ends, if its request was sent with others."""

from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing

from msgspec.structs import replace

from adapters.repairs.rule import Undo
from gateway.upstream.adaptation.stop_detection import StopRules
from gateway.upstream.adaptation.stop_enforcement import ended_at, streamed
from gateway.upstream.base import Call, Upstream
from schemas.events import Event, ToolDelta
from schemas.requests import GenerateRequest


def undone(
    upstream: Upstream, request: GenerateRequest, call: Call, undo: Undo
) -> AsyncGenerator[list[Event], None]:
    """Return the batches of an answer as the client asked for it.

    Whoever closes it closes the answer. An answer that the gateway ends is streamed, so that the
    vendor generates no more than a few tokens behind the end.
    """
    if undo.stops:
        rules = StopRules(strings=tuple([one for one in undo.stops if one]))
        source = upstream.generate(streamed(request), call)
        source = ended_at(source, request, rules, upstream.name)
    else:
        source = upstream.generate(request, call)
    return _named(source, undo) if undo.tools else source


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
