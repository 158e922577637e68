"""A fake OpenTelemetry collector on loopback: decodes with OpenTelemetry's own messages."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import (
    ExportMetricsServiceRequest,
)
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTracePartialSuccess,
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)
from opentelemetry.proto.logs.v1.logs_pb2 import LogRecord
from opentelemetry.proto.metrics.v1.metrics_pb2 import HistogramDataPoint, Metric
from opentelemetry.proto.resource.v1.resource_pb2 import Resource
from opentelemetry.proto.trace.v1.trace_pb2 import ResourceSpans, Span

from tests.stand_ins.provider import Answer, Behaviour, Provider, Received, provider

PROTOBUF = "application/x-protobuf"
Holder = Span | Span.Event | Resource | HistogramDataPoint | LogRecord


async def accepts(request: Received, answer: Answer) -> None:
    """Accept everything."""
    await answer.body(ExportTraceServiceResponse().SerializeToString(), PROTOBUF)


def refuses(status: int, times: int, **headers: str) -> Behaviour:
    """Refuse this many requests, then accept."""
    seen: list[Received] = []

    async def refuse(request: Received, answer: Answer) -> None:
        seen.append(request)
        if len(seen) > times:
            await accepts(request, answer)
        else:
            named = {name.replace("_", "-"): value for name, value in headers.items()}
            await answer.body(b"", PROTOBUF, status, named)

    return refuse


def partly(rejected: int, reason: str) -> Behaviour:
    """Accept every request but for some items."""
    part = ExportTracePartialSuccess(rejected_spans=rejected, error_message=reason)
    body = ExportTraceServiceResponse(partial_success=part).SerializeToString()

    async def accept(request: Received, answer: Answer) -> None:
        await answer.body(body, PROTOBUF)

    return accept


class OtlpCollector:
    """What a collector received. server: its HTTP side."""

    def __init__(self, server: Provider) -> None:
        self.server = server

    @property
    def origin(self) -> str:
        return self.server.origin

    def resource_spans(self) -> list[ResourceSpans]:
        found: list[ResourceSpans] = []
        for request in self.server.requests:
            if request.path.endswith("/v1/traces"):
                assert request.headers["content-type"] == PROTOBUF
                found += ExportTraceServiceRequest.FromString(request.body).resource_spans
        return found

    def spans(self) -> list[Span]:
        return [
            span
            for resource in self.resource_spans()
            for scope in resource.scope_spans
            for span in scope.spans
        ]

    def metrics(self) -> dict[str, Metric]:
        """The metrics by name, as pushed last."""
        pushes = [one for one in self.server.requests if one.path.endswith("/v1/metrics")]
        if not pushes:
            return {}
        (resource,) = ExportMetricsServiceRequest.FromString(pushes[-1].body).resource_metrics
        (scope,) = resource.scope_metrics
        return {metric.name: metric for metric in scope.metrics}

    async def received(self, spans: int) -> list[Span]:
        """Wait for so many spans."""
        await self.server.until(lambda: len(self.spans()) >= spans)
        return self.spans()


@asynccontextmanager
async def otlp_collector(behaviour: Behaviour = accepts) -> AsyncGenerator[OtlpCollector, None]:
    """Run a collector with this behaviour until the block ends."""
    async with provider(behaviour) as server:
        yield OtlpCollector(server)


def values(holder: Holder) -> dict[str, object]:
    """The attributes by key."""
    return {
        pair.key: getattr(pair.value, str(pair.value.WhichOneof("value")))
        for pair in holder.attributes
    }
