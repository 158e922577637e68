"""Tracing of one process: joins or begins traces, exports ended requests, and counts them.

1. `join` begins the trace of a request, and decides whether it is sampled.
2. `add` keeps the sampled ones of requests that have ended, and does nothing else with them: it
   runs in the turn of the event loop that logs them.
3. `_build` makes spans of them later, in slices between which others have their turn, and queues
   the spans for the collector: see `gateway/observability/otlp/exporter.py`.
"""

import asyncio
from collections import deque
from collections.abc import Awaitable, Mapping
from typing import Final

from prometheus_client import CollectorRegistry

from strowger_gateway.gateway.config.schema.config import Config
from strowger_gateway.gateway.config.schema.telemetry import Otlp
from strowger_gateway.gateway.observability.otlp.collector import CollectorClient
from strowger_gateway.gateway.observability.otlp.counts import ExportCounts
from strowger_gateway.gateway.observability.otlp.exporter import SPANS, Exporter
from strowger_gateway.gateway.observability.otlp.metric_pusher import MetricPusher
from strowger_gateway.gateway.observability.otlp.resource import own_resource
from strowger_gateway.gateway.observability.recording.ended_requests import EndedRequests
from strowger_gateway.gateway.observability.telemetry.access_log import AccessLine
from strowger_gateway.gateway.observability.tracing.conventions import SCHEMA_URL
from strowger_gateway.gateway.observability.tracing.genai_metrics import GenAiMetrics, observe_all
from strowger_gateway.gateway.observability.tracing.sink import CLOSE_S, CollectorSink, Pipes
from strowger_gateway.gateway.observability.tracing.spans import (
    attempt_spans,
    count_spans,
    request_spans,
)
from strowger_gateway.gateway.platform.background import OnCrash
from strowger_gateway.gateway.platform.trace_context import (
    DECIDING_BITS,
    RequestTrace,
    SampledRequest,
    SpanSink,
    baggage_of,
    begin_traces,
    join_trace,
)
from strowger_gateway.gateway.routing.request_record import RequestRecord
from strowger_gateway.gateway.server.asgi.exchange import HotExchange
from strowger_gateway.gateway.stages.request_context import RequestContext
from strowger_gateway.gateway.stages.stage import BaseStage, Place
from strowger_gateway.gateway.surfaces.hot_route import HotRoute

BUILD_S: Final = 0.1
"""From the end of a request to its spans, at the least."""

SLICE: Final = 32
"""Requests whose spans are built at once: less than a millisecond."""

SHARE: Final = 8
"""At least one in so many that wait is built at once, so that they never get more and more."""

MAX_ENDED: Final = 4096
"""Requests that wait for their spans; of further ones, the spans are dropped and counted."""

_Ended = tuple[SpanSink, RequestRecord, AccessLine, RequestTrace, SampledRequest, float, float]
"""Where its spans go, and what they are built of: see `request_spans`."""


class Tracing:
    """Exports over all configuration generations that have `telemetry.otlp`."""

    def __init__(self, registry: CollectorRegistry, crashed: OnCrash) -> None:
        self._counts = ExportCounts("spans")
        registry.register(self._counts)
        self._crashed = crashed
        self._resource = own_resource(SCHEMA_URL)
        self._pipes = Pipes(self._start)
        self._otlp: Otlp | None = None
        self._sink: CollectorSink | None = None
        self._threshold = 0
        self._begun: list[RequestTrace] = []
        """Traces that begin here, drawn in advance."""
        self._adapters: Mapping[str, str] = {}
        self._points = ExportCounts("data_points")
        registry.register(self._points)
        self._metrics: GenAiMetrics | None = None
        self._pusher: MetricPusher | None = None
        self._ending: set[asyncio.Task[None]] = set()
        self._ended: deque[_Ended] = deque()
        self._building: asyncio.Handle | None = None
        self._awaited = 0
        """Requests that are sampled and have not ended, so that a batch without any is skipped."""

    def configure(self, config: Config) -> None:
        """Export the requests that begin from now on as a generation's `telemetry.otlp` says.

        Requests in flight keep the collector that they began with. It is closed after the last of
        them.
        """
        otlp = config.telemetry.otlp
        # Those of earlier generations stay, because their requests may still run.
        self._adapters = {**self._adapters, **{one.name: one.adapter for one in config.providers}}
        if otlp == self._otlp:
            return
        self._end_pusher()
        self._otlp = otlp
        self._sink = None if otlp is None else CollectorSink(otlp, self._pipes)
        self._threshold = 0 if otlp is None else round(otlp.sample * 2**DECIDING_BITS)
        self._begun = []

    def join(self, exchange: HotExchange, route: HotRoute) -> RequestTrace:
        """Join the caller's trace, or begin one. Only POSTs have spans: others have no record."""
        parent = exchange.fields.get(b"traceparent")
        if parent is not None:
            trace = join_trace(exchange.scope["headers"], parent, self._threshold)
        else:
            if not self._begun:
                self._begun = begin_traces(self._threshold)
            trace = self._begun.pop()
        if trace.sampled is not None:
            self._sample(trace, trace.sampled, exchange, route)
        return trace

    def add(self, requests: EndedRequests) -> None:
        """Keep the sampled ones of ended requests for their export, and count all of them."""
        finished, offset = requests.finished, requests.offset
        if self._otlp is not None and self._otlp.metrics_interval_s is not None:
            observe_all(self._pushed(self._otlp), finished)
        if not self._awaited:
            return
        waiting = self._ended
        for (record, _, ended, _), line in zip(finished, requests.lines, strict=True):
            trace = record.trace
            if trace is None or (sampled := trace.sampled) is None:
                continue
            self._awaited -= 1
            requests.exemplify(line, trace.trace_id.decode())
            sink = sampled.sink
            if sink is None:
                continue
            if len(waiting) < MAX_ENDED:
                waiting.append((sink, record, line, trace, sampled, offset, ended))
            else:
                sink.drop(count_spans(sampled))
        if waiting and self._building is None:
            self._building = asyncio.get_running_loop().call_later(BUILD_S, self._build)

    def _build(self) -> None:
        """Build the spans of some ended requests, and go on in the next turn."""
        try:
            self._build_some()
        finally:
            loop = asyncio.get_running_loop()
            self._building = loop.call_soon(self._build) if self._ended else None

    def _build_some(self) -> None:
        adapters, waiting = self._adapters, self._ended
        spans: dict[SpanSink, list[bytes] | None] = {}
        for _ in range(min(len(waiting), max(SLICE, len(waiting) // SHARE))):
            sink, record, line, trace, sampled, offset, ended = waiting.popleft()
            if sink not in spans:
                spans[sink] = None if sink.is_full else []
            found = spans[sink]
            if found is None:
                sink.drop(count_spans(sampled))
            else:
                found += request_spans(record, line, trace, sampled, offset, ended, adapters)
        for sink, found in spans.items():
            if found:
                sink.add(found)

    def add_mirrored(self, shadow: RequestRecord, offset: float) -> None:
        """Export the attempts of a copy, and count them."""
        if self._metrics is not None and self._pusher is not None:
            self._metrics.observe_attempts(shadow)
        trace = shadow.trace
        if trace is None or (sampled := trace.sampled) is None or sampled.sink is None:
            return
        sampled.sink.add(attempt_spans(shadow, trace, sampled, offset, self._adapters))

    async def close(self, within_s: float) -> None:
        """Send what has ended and what is queued, for at most this many seconds."""
        if self._building is not None:
            self._building.cancel()
            self._building = None
        while self._ended:
            self._build_some()
            await asyncio.sleep(0)
        self._otlp = self._sink = None
        self._end_pusher(within_s)
        await asyncio.gather(self._pipes.close(within_s), *self._ending)

    def _sample(
        self, trace: RequestTrace, sampled: SampledRequest, exchange: HotExchange, route: HotRoute
    ) -> None:
        scope = exchange.scope
        if scope["method"] != "POST":
            trace.sampled = None
            return
        self._awaited += 1
        sampled.sink, sampled.route = self._sink, route.path
        sampled.path, sampled.scheme = scope["path"], scope["scheme"]
        if b"baggage" in exchange.fields:
            sampled.baggage = baggage_of(scope["headers"])

    def _start(self, client: CollectorClient) -> Exporter:
        return Exporter(SPANS, client, self._resource, self._counts, self._crashed)

    def _pushed(self, otlp: Otlp) -> GenAiMetrics:
        """Return the metrics, and push them from now on. They count over all generations."""
        if self._metrics is None:
            self._metrics = GenAiMetrics(self._adapter_of)
        if self._pusher is None and otlp.metrics_interval_s is not None:
            self._pusher = MetricPusher(
                otlp.metrics_interval_s,
                CollectorClient(otlp),
                self._resource,
                self._metrics.collect,
                self._points,
                self._crashed,
            )
        return self._metrics

    def _end_pusher(self, within_s: float = CLOSE_S) -> None:
        pusher, self._pusher = self._pusher, None
        if pusher is not None:
            ending = asyncio.create_task(pusher.close(within_s))
            self._ending.add(ending)
            ending.add_done_callback(self._ending.discard)

    def _adapter_of(self, provider: str) -> str:
        return self._adapters.get(provider, "")


class TraceStage(BaseStage):
    """Joins each request of a route to its caller's trace, or begins one."""

    place = Place.ADMIT

    def __init__(self, tracing: Tracing, at: HotRoute) -> None:
        self._tracing = tracing
        self._at = at

    def enter(self, request: RequestContext) -> Awaitable[None] | None:
        """Give the request its trace, which its attempts continue. It ends when it is recorded."""
        request.record.trace = self._tracing.join(request.exchange, self._at)
