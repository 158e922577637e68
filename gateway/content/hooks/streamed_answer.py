"""Guardrails over the events of an answer, as they arrive: each is a source around the one before.

How a guardrail goes with a stream depends on its mode and its hook:

- `monitor`: batches pass as they are, and are examined afterwards (`_watched`); by a hook that
  waits for a service in the background (`_watched_apart`).
- `mask` or `block`: `GuardedSink` takes events while the provider is read, and writes those that
  may leave (`_masked`). For a hook that waits there is no sink: each batch is examined before the
  next (`_masked_by_waiting`).
"""

import asyncio
from collections.abc import Coroutine, Sequence
from contextlib import aclosing, suppress
from typing import Any, TypeVar, cast

from strowger_gateway.gateway.content.hooks.guards import DIRECT, RequestGuards
from strowger_gateway.gateway.content.hooks.stream_guard import StreamGuard
from strowger_gateway.gateway.platform.eventloop.inline_task import in_task
from strowger_gateway.schemas.errors import GatewayError
from strowger_gateway.schemas.events import (
    CONTENT,
    Event,
    EventSink,
    EventSource,
    NativeDelta,
    OpaqueDelta,
    ReasoningDelta,
    RefusalDelta,
    Started,
    TextDelta,
    ToolDelta,
)

_T = TypeVar("_T")


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
    """Hold text back for a hook that waits: no sink, each batch is examined before the next.

    Nothing leaves before content, so that an error keeps its status.
    """
    wait_s = stream.rail.settings.hold_back.ms / 1000
    await in_task()
    following: asyncio.Future[list[Event] | None] | None = None
    pending: list[Event] = []
    begun = False
    async with aclosing(source):
        try:
            while True:
                following = asyncio.ensure_future(_next(source, None))
                if stream.waiting:
                    await asyncio.wait({following}, timeout=wait_s)
                    if not following.done():
                        pending += await stream.release_all()
                        if pending and (begun := begun or _has_content(pending)):
                            yield pending
                            pending = []
                batch = await following
                if batch is None:
                    break
                if not stream.absorb(batch):
                    pending += await stream.take(batch)
                    if pending and (begun := begun or _has_content(pending)):
                        yield pending
                        pending = []
            if rest := [*pending, *await stream.end()]:
                yield rest
        finally:
            await _cancelled(following)


class GuardedSink:
    """An EventSink in front of the client's. Text that has waited long enough leaves on a timer.

    Without the client's sink, what may leave is `pending`, and so are errors: `wait` ends then.
    used: something has left. Nothing leaves before content, so that an error keeps its status.
    Large events are put aside for `accept`, which can wait for the thread that examines them.
    """

    __slots__ = (
        "_aside",
        "_client",
        "_error",
        "_full",
        "_last",
        "_loop",
        "_pending",
        "_stream",
        "_timer",
        "_wait_s",
        "_wake",
        "used",
    )

    def __init__(self, stream: StreamGuard) -> None:
        self.used = False
        self._stream = stream
        self._wait_s = stream.rail.settings.hold_back.ms / 1000
        self._loop = asyncio.get_running_loop()
        self._client: EventSink | None = None
        self._pending: list[Event] = []
        self._aside: list[Event] = []
        self._error: GatewayError | None = None
        self._full = False
        self._last = 0.0
        self._timer: asyncio.TimerHandle | None = None
        self._wake: asyncio.Future[None] | None = None

    def __call__(self, batch: Sequence[Event]) -> bool:
        """See EventSink."""
        if self._stream.absorb(batch):
            self._last = self._loop.time()
            if self._timer is None:
                self._timer = self._loop.call_later(self._wait_s, self._late)
            return not self._full
        if is_large(batch):
            self._aside += batch
            return False
        try:
            out = now(self._stream.take(batch))
        except GatewayError as exc:
            self._error = exc
            return False
        self._arm()
        self._pass_on(out)
        return not self.ready

    @property
    def ready(self) -> bool:
        """Whether the client has to be given `drain`, or does not read."""
        return self._full or (bool(self._pending) and (self.used or _has_content(self._pending)))

    async def wait(self, following: "asyncio.Future[list[Event] | None]") -> None:
        """Wait for the source, or for what may leave before it. Raises ContentBlocked."""
        if self._error is None and not self.ready and not following.done():
            self._wake = self._loop.create_future()
            waiting = {cast("asyncio.Future[object]", following), self._wake}
            try:
                await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
            finally:
                self._wake = None
        if self._error is not None:
            raise self._error

    async def accept(self, batch: Sequence[Event]) -> None:
        """Take a batch that the source has yielded. Raises ContentBlocked."""
        self.close()  # while a thread examines a text, nothing else may release it
        events, self._aside = [*self._aside, *batch], []
        self._pending += await self._stream.take(events)
        self._arm()

    async def accept_end(self) -> None:
        """The answer is complete, or cut: nothing waits any longer. Raises ContentBlocked."""
        await self.accept(())
        self.close()
        self._pending += await self._stream.end()

    def drain(self) -> list[Event]:
        """Return what the client gets now; until `use`, nothing is written."""
        out, self._pending = self._pending, []
        self._client, self._full = None, False
        self.used = self.used or bool(out)
        return out

    def use(self, client: EventSink | None) -> None:
        """Write to the client's sink from now on."""
        self._client = client

    def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _arm(self) -> None:
        self._last = self._loop.time()
        if self._timer is None and self._stream.waiting:
            self._timer = self._loop.call_later(self._wait_s, self._late)

    def _late(self) -> None:
        self._timer = None
        left = self._last + self._wait_s - self._loop.time()
        if left > 0:
            self._timer = self._loop.call_later(left, self._late)
            return
        try:
            self._pass_on(now(self._stream.release_all()))
        except GatewayError as exc:
            self._error = exc
        if (self._error is not None or self.ready) and self._wake and not self._wake.done():
            self._wake.set_result(None)

    def _pass_on(self, out: list[Event]) -> None:
        if not out:
            return
        if self._client is None or self._full or self._pending:
            self._pending += out
        elif not self._client(out):
            self._full = True


def is_large(events: Sequence[Event]) -> bool:
    """Whether events have so much text that a thread has to examine it with what is held back."""
    return sum(map(_size, events)) > DIRECT // 2


def now(work: Coroutine[Any, Any, _T]) -> _T:
    """Run a coroutine that does not wait."""
    try:
        work.send(None)
    except StopIteration as ended:
        return cast("_T", ended.value)
    raise RuntimeError("a hook without I/O has to return at once")


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


def _size(event: Event) -> int:
    match event:
        case TextDelta() | ReasoningDelta() | RefusalDelta():
            return len(event.text)
        case ToolDelta():
            return len(event.arguments)
        case NativeDelta():
            return sum(len(memoryview(raw)) for raw in (event.block, event.delta) if raw)
        case OpaqueDelta():
            return sum(len(memoryview(raw)) for raw in event.fields.values())
        case Started():
            return sum(len(memoryview(raw)) for raw in event.extra.values())
        case _:
            return 0


def _has_content(events: Sequence[Event]) -> bool:
    return any(isinstance(event, CONTENT) for event in events)
