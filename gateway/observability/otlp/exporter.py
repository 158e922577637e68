"""Send encoded items to a collector in the background: bounded, with retries, drops counted."""

import asyncio
import logging
import random
from collections import deque
from collections.abc import Sequence
from itertools import islice
from typing import Final

from msgspec import Struct

from strowger_gateway.gateway.observability.otlp.collector import CollectorClient
from strowger_gateway.gateway.observability.otlp.counts import ExportCounts
from strowger_gateway.gateway.observability.otlp.protobuf import export_request
from strowger_gateway.gateway.observability.otlp.resource import Resource
from strowger_gateway.gateway.platform.background import OnCrash, keep_running

MAX_QUEUED: Final = 8192
MAX_QUEUED_BYTES: Final = 8 * 1024 * 1024
MAX_SENT: Final = 512
"""Items in one export request."""
MAX_SENT_BYTES: Final = 2 * 1024 * 1024
"""Of items in one export request. Collectors accept 4 MiB and more by default."""
INTERVAL_S: Final = 1.0
RETRY_S, MAX_RETRY_S = 1.0, 30.0
MIN_WAIT_S: Final = 0.1
"""Between two attempts, also if the collector says `Retry-After: 0`."""

_log = logging.getLogger("strowger.otlp")


class Signal(Struct, frozen=True, kw_only=True):
    """A kind of items. path: of the collector. items: their name in the log."""

    path: str
    items: str


SPANS: Final = Signal(path="/v1/traces", items="spans")


class Exporter:
    """One queue to one collector. `add` never waits; start it inside a running event loop."""

    def __init__(
        self,
        signal: Signal,
        client: CollectorClient,
        resource: Resource,
        counts: ExportCounts,
        crashed: OnCrash,
    ) -> None:
        self._signal = signal
        self._client = client
        self._resource = resource
        self._counts = counts
        self._queue: deque[bytes] = deque()
        self._bytes = 0
        self._full = asyncio.Event()
        self._stopping = asyncio.Event()
        self._closed = False
        self._failing = False
        self._warning = ""
        name = f"OTLP exporter of {signal.items}"
        self._task = asyncio.create_task(keep_running(name, self._run, crashed), name=name)

    @property
    def is_full(self) -> bool:
        """Whether the next item is dropped whatever its size. Then it need not be encoded."""
        queued = len(self._queue)
        return queued >= MAX_QUEUED or self._bytes >= MAX_QUEUED_BYTES or self._closed

    def drop(self, count: int) -> None:
        """Count items that are dropped because the queue is full."""
        self._counts.dropped += count

    def add(self, items: Sequence[bytes]) -> None:
        """Queue items; those that do not fit are dropped and counted."""
        queue = self._queue
        size = self._bytes + sum(map(len, items))
        fit = len(queue) + len(items) <= MAX_QUEUED and size <= MAX_QUEUED_BYTES
        if fit and not self._closed:
            queue.extend(items)
            self._bytes = size
        else:
            self._add_some(items)
        if len(queue) >= MAX_SENT:
            self._full.set()

    def _add_some(self, items: Sequence[bytes]) -> None:
        for one in items:
            size = self._bytes + len(one)
            if len(self._queue) >= MAX_QUEUED or size > MAX_QUEUED_BYTES or self._closed:
                self._counts.dropped += 1
                continue
            self._queue.append(one)
            self._bytes = size

    async def close(self, within_s: float) -> None:
        """Send what is queued, for at most this many seconds; count the rest as dropped."""
        self._stopping.set()
        self._full.set()
        try:
            await asyncio.wait({self._task}, timeout=within_s)
        finally:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
            self._counts.dropped += len(self._queue)
            self._queue.clear()
            self._bytes = 0
            self._closed = True

    async def _run(self) -> None:
        while True:
            if not self._stopping.is_set() and len(self._queue) < MAX_SENT:
                self._full.clear()
                await wait(self._full, INTERVAL_S)
            if self._queue:
                await self._send()
            elif self._stopping.is_set():
                return

    async def _send(self) -> None:
        """Send one batch until the collector has it, or refuses it for good.

        A batch in flight is still queued, so it counts towards the bounds.
        """
        batch = self._batch()
        resource = self._resource
        body = export_request(batch, resource.attributes, resource.scope, resource.schema_url)
        pause = RETRY_S
        while True:
            outcome = await self._client.post(self._signal.path, body)
            if not outcome.problem or not outcome.again:
                break
            self._report(outcome.problem)
            backoff_s = pause * random.uniform(0.5, 1.0)
            wait_s = backoff_s if outcome.wait_s is None else max(outcome.wait_s, MIN_WAIT_S)
            await wait(self._stopping, wait_s)
            if self._stopping.is_set():
                await asyncio.sleep(MIN_WAIT_S)
            pause = min(pause * 2, MAX_RETRY_S)
        self._queue = deque(islice(self._queue, len(batch), None))
        self._bytes -= sum(map(len, batch))
        if outcome.problem:
            self._report(outcome.problem)
            self._counts.rejected += len(batch)
            return
        rejected = min(outcome.rejected, len(batch))
        self._counts.rejected += rejected
        self._counts.sent += len(batch) - rejected
        if rejected:
            self._report(f"{rejected} of {len(batch)} rejected: {outcome.reason}")
            return
        if self._failing:
            self._failing = False
            _log.info("the OpenTelemetry collector accepts %s again", self._signal.items)
        if outcome.reason != self._warning:
            self._warning = outcome.reason
            if outcome.reason:
                _log.warning("the OpenTelemetry collector warns: %s", outcome.reason)

    def _batch(self) -> list[bytes]:
        """Return the first items of the queue, at least one, within the bounds of a request."""
        batch = list(islice(self._queue, MAX_SENT))
        size = sum(map(len, batch))
        while size > MAX_SENT_BYTES and len(batch) > 1:
            size -= len(batch.pop())
        return batch

    def _report(self, problem: str) -> None:
        if not self._failing:
            self._failing = True
            _log.warning(
                "the OpenTelemetry collector accepts no %s: %s", self._signal.items, problem
            )


async def wait(event: asyncio.Event, seconds: float) -> None:
    """Wait for an event, for at most this many seconds."""
    try:
        async with asyncio.timeout(seconds):
            await event.wait()
    except TimeoutError:
        return
