"""Tracing of one process: joins or begins traces, and exports them when their requests ended."""

import asyncio
from collections.abc import Iterable, Mapping
from importlib.metadata import PackageNotFoundError, version

from prometheus_client import CollectorRegistry

from gateway.asgi.exchange import HotExchange
from gateway.background import OnCrash
from gateway.config.schema.config import Config
from gateway.config.schema.telemetry import Otlp
from gateway.routing.request_record import RequestRecord
from gateway.surfaces.hot_route import HotRoute
from gateway.telemetry.access_log import AccessLine
from gateway.trace_context import RequestTrace, baggage_of, join_trace
from gateway.tracing.counts import SpanCounts
from gateway.tracing.exporter import Exporter
from gateway.tracing.spans import attempt_spans, request_spans

CLOSE_S = 10.0
"""Seconds in which the spans for a collector that a reload has removed are sent."""

_BITS = 56
"""Of the trace id, which are random. https://www.w3.org/TR/trace-context-2/#random-trace-id-flag"""


class Tracing:
    """Exports over all configuration generations that have `telemetry.otlp`."""

    def __init__(self, registry: CollectorRegistry, crashed: OnCrash) -> None:
        self._counts = SpanCounts()
        registry.register(self._counts)
        self._crashed = crashed
        self._exporter: Exporter | None = None
        self._otlp: Otlp | None = None
        self._threshold = 0
        self._adapters: Mapping[str, str] = {}
        self._closing: set[asyncio.Task[None]] = set()

    def configure(self, config: Config) -> None:
        """Use the settings of a generation that has `telemetry.otlp`."""
        otlp = config.telemetry.otlp
        self._adapters = {one.name: one.adapter for one in config.providers}
        if otlp == self._otlp:
            return
        if self._exporter is not None:
            closing = asyncio.create_task(self._exporter.close(CLOSE_S))
            self._closing.add(closing)
            closing.add_done_callback(self._closing.discard)
            self._exporter = None
        self._otlp = otlp
        self._threshold = 0 if otlp is None else round(otlp.sample * 2**_BITS)

    def join(self, exchange: HotExchange, route: HotRoute) -> RequestTrace:
        """Join the caller's trace, or begin one."""
        headers = exchange.scope["headers"]
        fields = exchange.fields
        trace = join_trace(headers, fields.get(b"traceparent"), self._threshold)
        if trace.sampled:
            trace.route, trace.path = route.path, exchange.scope["path"]
            trace.scheme = exchange.scope["scheme"]
            if b"baggage" in fields:
                trace.baggage = baggage_of(headers)
        return trace

    def add(
        self, finished: Iterable[tuple[RequestRecord, AccessLine, float]], offset: float
    ) -> None:
        """Export the sampled ones of ended requests, each with its end by the clock.

        offset: Unix time minus the clock, seconds.
        """
        for record, line, ended in finished:
            trace = record.trace
            if trace is not None and trace.sampled and (exporter := self._running()) is not None:
                exporter.add(request_spans(record, line, trace, offset, ended, self._adapter_of))

    def add_mirrored(self, shadow: RequestRecord, offset: float) -> None:
        """Export the attempts of a copy."""
        trace = shadow.trace
        if trace is not None and trace.sampled and (exporter := self._running()) is not None:
            exporter.add(attempt_spans(shadow, trace, offset, self._adapter_of, shadow.task))

    async def close(self, within_s: float) -> None:
        """Send what is queued, for at most this many seconds."""
        exporter, self._exporter, self._otlp = self._exporter, None, None
        if exporter is not None:
            await exporter.close(within_s)
        for one in self._closing:
            one.cancel()
        await asyncio.gather(*self._closing, return_exceptions=True)

    def _adapter_of(self, provider: str) -> str:
        return self._adapters.get(provider, "")

    def _running(self) -> Exporter | None:
        if self._exporter is None and self._otlp is not None:
            self._exporter = Exporter(self._otlp, self._counts, _version(), self._crashed)
        return self._exporter


def _version() -> str:
    try:
        return version("strowger-gateway")
    except PackageNotFoundError:  # run from a checkout
        return "unknown"
