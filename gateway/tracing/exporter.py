"""Send encoded spans to a collector in the background: bounded, with retries, drops counted."""

import asyncio
import logging
import random
from collections import deque
from collections.abc import Iterable
from typing import Final
from urllib.parse import urlsplit

from adapters.base import Outbound
from gateway.background import OnCrash, keep_running
from gateway.clock import now
from gateway.config.schema.telemetry import Otlp
from gateway.tracing.conventions import SCHEMA_URL
from gateway.tracing.counts import SpanCounts
from gateway.tracing.protobuf import key_value, part, request_of
from gateway.upstream.transport import Transport
from schemas.errors import GatewayError

MAX_QUEUED: Final = 8192
MAX_QUEUED_BYTES: Final = 8 * 1024 * 1024
MAX_SENT: Final = 512
"""Spans in one export request."""
INTERVAL_S, TIMEOUT_S = 1.0, 10.0
RETRY_S, MAX_RETRY_S = 1.0, 30.0
RETRYABLE: Final = frozenset({429, 502, 503, 504})
"""https://opentelemetry.io/docs/specs/otlp/#retryable-response-codes"""
MAX_ANSWER: Final = 64 * 1024

_log = logging.getLogger("strowger.tracing")


class Exporter:
    """One collector's queue. `add` never waits; start it inside a running event loop."""

    def __init__(self, otlp: Otlp, counts: SpanCounts, version: str, crashed: OnCrash) -> None:
        self.otlp = otlp
        self._counts = counts
        self._queue: deque[bytes] = deque()
        self._bytes = 0
        parts = urlsplit(otlp.endpoint.rstrip("/"))
        self._origin = f"{parts.scheme}://{parts.netloc}"
        self._target = f"{parts.path}/v1/traces"
        own = {name.lower(): value.reveal() for name, value in otlp.headers.items()}
        self._headers = (("content-type", "application/x-protobuf"), *own.items())
        self._resource = b"".join(
            part(1, key_value(key, value))
            for key, value in (("service.name", "strowger"), ("service.version", version))
        )
        self._scope = part(1, b"strowger") + part(2, version.encode())
        self._transport: Transport | None = None
        self._full = asyncio.Event()
        self._stopping = asyncio.Event()
        self._failing = False
        self._task = asyncio.create_task(keep_running("trace exporter", self._run, crashed))

    def add(self, spans: Iterable[bytes]) -> None:
        """Queue spans; those that do not fit are dropped and counted."""
        for one in spans:
            if len(self._queue) >= MAX_QUEUED or self._bytes + len(one) > MAX_QUEUED_BYTES:
                self._counts.dropped += 1
                continue
            self._queue.append(one)
            self._bytes += len(one)
        if len(self._queue) >= MAX_SENT:
            self._full.set()

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
            if self._transport is not None:
                await self._transport.aclose()

    async def _run(self) -> None:
        while True:
            if not self._stopping.is_set() and len(self._queue) < MAX_SENT:
                self._full.clear()
                await _wait(self._full, INTERVAL_S)
            if self._queue:
                await self._send()
            elif self._stopping.is_set():
                return

    async def _send(self) -> None:
        """Send one batch until the collector has it, or refuses it for good.

        A batch in flight is still queued, so it counts towards the bounds.
        """
        count = min(len(self._queue), MAX_SENT)
        batch = [self._queue[place] for place in range(count)]
        body = request_of(batch, self._resource, self._scope, SCHEMA_URL)
        pause = RETRY_S
        while True:
            problem, again = await self._post(body)
            if not problem or not again:
                break
            self._report(problem)
            await _wait(self._stopping, pause * random.uniform(0.5, 1.0))
            if self._stopping.is_set():
                await asyncio.sleep(0.1)
            pause = min(pause * 2, MAX_RETRY_S)
        for _ in range(count):
            self._bytes -= len(self._queue.popleft())
        if problem:
            self._report(problem)
            self._counts.dropped += count
            return
        self._counts.sent += count
        if self._failing:
            self._failing = False
            _log.info("the OpenTelemetry collector accepts spans again")

    async def _post(self, body: bytes) -> tuple[str, bool]:
        """Return what went wrong, "" if nothing did, and whether to try again."""
        outbound = Outbound(target=self._target, headers=self._headers, body=body)
        by = now() + TIMEOUT_S
        try:
            if self._transport is None:
                self._transport = await asyncio.to_thread(self._connect)
            reply = await self._transport.exchange(outbound, connect_by=by, head_by=by)
            try:
                await reply.body(by, MAX_ANSWER)
            finally:
                await reply.aclose()
        except GatewayError as exc:
            return exc.logged, True
        if 200 <= reply.status < 300:
            return "", False
        return f"answered with status {reply.status}", reply.status in RETRYABLE

    def _connect(self) -> Transport:
        """Reading certificates takes 50 ms, so this runs in a thread."""
        from gateway.upstream.wire import WireTransport

        return WireTransport(self._origin, name="OpenTelemetry collector", max_connections=1)

    def _report(self, problem: str) -> None:
        if not self._failing:
            self._failing = True
            _log.warning("the OpenTelemetry collector accepts no spans: %s", problem)


async def _wait(event: asyncio.Event, seconds: float) -> None:
    try:
        async with asyncio.timeout(seconds):
            await event.wait()
    except TimeoutError:
        return
