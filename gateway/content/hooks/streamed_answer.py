"""Guardrails over the events of an answer, as they arrive."""

import asyncio
from collections.abc import Sequence
from contextlib import aclosing, suppress

from strowger_gateway.gateway.content.hooks.guards import RequestGuards
from strowger_gateway.gateway.content.hooks.stream_guard import StreamGuard
from strowger_gateway.gateway.content.hooks.stream_sink import GuardedSink, is_large, now
from strowger_gateway.gateway.platform.eventloop.inline_task import in_task
from strowger_gateway.schemas.errors import GatewayError
from strowger_gateway.schemas.event_source import EventSink, EventSource
from strowger_gateway.schemas.events import Event


def guard_events(source: EventSource, guards: RequestGuards) -> EventSource:
    """Return the events of a stream as its client may receive them. Closing it closes the source.

    It raises ContentBlocked, after text before the finding.
    """
    for rail in guards.output:
        stream = StreamGuard(guards, rail)
        if not rail.enforces:
            source = (_watched_apart if rail.waits else _watched)(source, stream)
        elif rail.waits:
            source = _masked_by_waiting(source, stream)
        else:
            source = _masked(source, stream)
    return source


async def _watched(source: EventSource, stream: StreamGuard) -> EventSource:
    """Yield the same batches, each before it is examined."""
    sink: EventSink | None = None
    large: list[Event] = []
    async with aclosing(source):
        while (batch := await _next(source, sink)) is not None:
            client = yield batch
            events = [*large, *batch]
            large.clear()
            if is_large(events):
                await in_task()
            await stream.take(events)
            sink = None if client is None else _watching(stream, client, large)
        now(stream.end())


def _watching(stream: StreamGuard, client: EventSink, large: list[Event]) -> EventSink:
    """Return a sink in front of the client's. large: it adds events that a thread examines."""

    def push(batch: Sequence[Event]) -> bool:
        takes_more = client(batch)
        if stream.absorb(batch):
            return takes_more
        if is_large(batch):
            large.extend(batch)
            return False
        now(stream.take(batch))
        return takes_more

    return push


async def _watched_apart(source: EventSource, stream: StreamGuard) -> EventSource:
    """Yield the same batches; a hook that waits examines them in the background."""
    batches: asyncio.Queue[list[Event] | None] = asyncio.Queue()

    async def examine() -> None:
        while (batch := await batches.get()) is not None:
            await stream.take(batch)
        await stream.end()

    stream.guards.in_background(examine())
    try:
        async with aclosing(source):
            while (batch := await _next(source, None)) is not None:
                batches.put_nowait(batch)
                yield batch
    finally:
        batches.put_nowait(None)


async def _masked(source: EventSource, stream: StreamGuard) -> EventSource:
    await in_task()
    sink = GuardedSink(stream)
    following: asyncio.Future[list[Event] | None] | None = None
    begun = False
    async with aclosing(source):
        try:
            while True:
                if following is None:
                    following = asyncio.ensure_future(_next(source, sink if begun else None))
                await sink.wait(following)
                if following.done():
                    try:
                        batch = following.result()
                    except GatewayError:
                        await sink.accept_end()
                        if sink.used and (rest := sink.drain()):
                            yield rest
                        raise
                    begun, following = True, None
                    if batch is None:
                        break
                    await sink.accept(batch)
                if sink.ready:
                    sink.use((yield sink.drain()))
            await sink.accept_end()
            if rest := sink.drain():
                yield rest
        finally:
            sink.close()
            await _cancelled(following)


async def _masked_by_waiting(source: EventSource, stream: StreamGuard) -> EventSource:
    """Hold text back for a hook that waits: no sink, each batch is examined before the next."""
    wait_s = stream.rail.settings.hold_back.ms / 1000
    await in_task()
    following: asyncio.Future[list[Event] | None] | None = None
    async with aclosing(source):
        try:
            while True:
                following = asyncio.ensure_future(_next(source, None))
                if stream.waiting:
                    await asyncio.wait({following}, timeout=wait_s)
                    if not following.done() and (late := await stream.release_all()):
                        yield late
                batch = await following
                if batch is None:
                    break
                if not stream.absorb(batch) and (passed := await stream.take(batch)):
                    yield passed
            if rest := await stream.end():
                yield rest
        finally:
            await _cancelled(following)


async def _cancelled(following: "asyncio.Future[list[Event] | None] | None") -> None:
    """Cancel what is running of a source, because only then it can be closed."""
    if following is not None and not following.done():
        following.cancel()
        with suppress(asyncio.CancelledError, GatewayError):
            await following


async def _next(source: EventSource, sink: EventSink | None) -> list[Event] | None:
    """Return the next batch, `None` at the end."""
    try:
        return await source.asend(sink)
    except StopAsyncIteration:
        return None
