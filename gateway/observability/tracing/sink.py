"""Where the spans of one configuration's requests go, and how long its collector is kept."""

import asyncio
import weakref
from collections.abc import Callable, Sequence

from strowger_gateway.gateway.config.schema.telemetry import Otlp
from strowger_gateway.gateway.observability.otlp.collector import CollectorClient
from strowger_gateway.gateway.observability.otlp.exporter import Exporter

CLOSE_S = 10.0
"""Seconds in which the spans for a collector that a reload has removed are sent."""

StartExporter = Callable[[CollectorClient], Exporter]


class Pipe:
    """A collector's client and the queue of spans for it."""

    def __init__(self, client: CollectorClient, spans: Exporter) -> None:
        self._client = client
        self.spans = spans

    async def close(self, within_s: float) -> None:
        """Send what is queued, for at most this many seconds, and close the connections."""
        try:
            await self.spans.close(within_s)
        finally:
            await self._client.close()


class Pipes:
    """The open pipes of one process: one per collector whose requests may still run."""

    def __init__(self, start: StartExporter) -> None:
        self._start = start
        self._open: set[Pipe] = set()
        self._closing: set[asyncio.Task[None]] = set()

    def open(self, otlp: Otlp) -> Pipe:
        """Open a pipe, inside a running event loop."""
        client = CollectorClient(otlp)
        pipe = Pipe(client, self._start(client))
        self._open.add(pipe)
        return pipe

    def end(self, pipe: Pipe, within_s: float = CLOSE_S) -> None:
        """Close a pipe in the background."""
        if pipe in self._open:
            self._open.discard(pipe)
            closing = asyncio.create_task(pipe.close(within_s))
            self._closing.add(closing)
            closing.add_done_callback(self._closing.discard)

    async def close(self, within_s: float) -> None:
        """Close all, those that end already as well, within this many seconds."""
        for pipe in tuple(self._open):
            self.end(pipe, within_s)
        closing = tuple(self._closing)
        if closing:
            await asyncio.wait(closing, timeout=within_s)
        for task in closing:
            task.cancel()
        await asyncio.gather(*closing, return_exceptions=True)


class CollectorSink:
    """See SpanSink. Its pipe opens with the first span.

    The pipe ends with the last reference to the sink: requests in flight hold it, mirrored copies
    do, and the configuration in force does.
    """

    def __init__(self, otlp: Otlp, pipes: Pipes) -> None:
        self._otlp = otlp
        self._pipes = pipes
        self._pipe: Pipe | None = None

    @property
    def is_full(self) -> bool:
        """See SpanSink."""
        return self._pipe is not None and self._pipe.spans.is_full

    def drop(self, count: int) -> None:
        """See SpanSink."""
        self._opened().spans.drop(count)

    def add(self, items: Sequence[bytes]) -> None:
        """See SpanSink."""
        self._opened().spans.add(items)

    def _opened(self) -> Pipe:
        if self._pipe is None:
            self._pipe = self._pipes.open(self._otlp)
            loop = asyncio.get_running_loop()
            weakref.finalize(self, _end, loop, self._pipes, self._pipe).atexit = False
        return self._pipe


def _end(loop: asyncio.AbstractEventLoop, pipes: Pipes, pipe: Pipe) -> None:
    """Run by whichever thread drops the last reference."""
    if not loop.is_closed():
        loop.call_soon_threadsafe(pipes.end, pipe)
