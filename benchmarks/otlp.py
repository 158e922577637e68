"""CPU of traces and metrics over OTLP, in one process, without a gateway around them.

`python -m benchmarks.otlp [--rounds 9] [--backends 10]` (ten seconds): what the trace of a request
takes, what one export of 512 spans takes, and one push of metrics. A process of its own is the
collector, so that its work does not count; waiting does not, either. The figure is the least of
all rounds: other work on the machine only adds to it.
"""

import argparse
import asyncio
import multiprocessing
import time
from collections.abc import Awaitable, Callable
from multiprocessing.connection import Connection
from typing import Final, cast

import uvloop
from msgspec import Struct
from prometheus_client import CollectorRegistry

from benchmarks.tracing_overhead import Collector
from strowger_gateway.gateway.config.load import read_config
from strowger_gateway.gateway.config.schema.config import Config
from strowger_gateway.gateway.observability.otlp.collector import CollectorClient
from strowger_gateway.gateway.observability.otlp.counts import ExportCounts
from strowger_gateway.gateway.observability.otlp.exporter import MAX_SENT, SPANS, Exporter
from strowger_gateway.gateway.observability.otlp.metric_pusher import MetricPusher
from strowger_gateway.gateway.observability.otlp.protobuf import export_request
from strowger_gateway.gateway.observability.otlp.resource import own_resource
from strowger_gateway.gateway.observability.recording.ended_requests import EndedRequests
from strowger_gateway.gateway.observability.telemetry.access_log import AccessLine
from strowger_gateway.gateway.observability.tracing.conventions import SCHEMA_URL
from strowger_gateway.gateway.observability.tracing.genai_metrics import GenAiMetrics
from strowger_gateway.gateway.observability.tracing.spans import request_spans
from strowger_gateway.gateway.observability.tracing.tracing import Tracing
from strowger_gateway.gateway.platform.background import ignore_crash
from strowger_gateway.gateway.routing.request_record import (
    AttemptRecord,
    RequestRecord,
    new_request_id,
)
from strowger_gateway.gateway.server.asgi.exchange import HotExchange
from strowger_gateway.gateway.surfaces.routes import HOT_ROUTES
from strowger_gateway.schemas.events import Usage

BATCH: Final = 64
"""Ended requests that are written at a time, as in gateway/assembly/request_log.py."""
REQUESTS: Final = 32 * BATCH
PUSHES: Final = 20
EXPORTS: Final = 16
"""As many as the queue holds."""
CALLER: Final = b"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00"
ROUTE: Final = next(one for one in HOT_ROUTES if one.path == "/v1/chat/completions")

Finished = list[tuple[RequestRecord, int, float, object]]


class Exchange:
    """What tracing reads of a request."""

    def __init__(self, **fields: bytes) -> None:
        self.fields = {name.encode(): value for name, value in fields.items()}
        headers = list(self.fields.items())
        self.scope = {"method": "POST", "path": ROUTE.path, "scheme": "http", "headers": headers}


def ended(backend: str = "openai/gpt-5.4-mini", *, stream: bool = False) -> RequestRecord:
    """The record of a chat that one attempt has answered."""
    return RequestRecord(
        request_id=new_request_id(),
        started=100.0,
        surface="openai",
        task="chat",
        model="chat",
        route="chat",
        caller="web",
        backend=backend,
        stream=stream,
        attempts=[AttemptRecord(backend=backend, outcome="ok", ms=812.3)],
        usage=Usage(prompt_tokens=312, completion_tokens=148, total_tokens=460),
        first_content_at=100.4,
    )


def line_of(record: RequestRecord) -> AccessLine:
    """Its access line, as far as spans have it."""
    return AccessLine(
        time=100.8,
        request_id=record.request_id,
        surface=record.surface,
        status=200,
        ms=813.0,
        key=record.caller,
        route=record.route,
        backend=record.backend,
    )


class Bench(Struct, frozen=True, kw_only=True, eq=False):
    """What all measurements need. port: of the collector."""

    port: int
    rounds: int
    backends: int

    def otlp(self, sample: float) -> str:
        return f'{{endpoint: "http://127.0.0.1:{self.port}", sample: {sample}}}'

    def config(self, sample: float) -> Config:
        text = f"""
providers: [{{name: openai, adapter: openai, api_key: k}}]
models: [{{name: chat, backends: [{{provider: openai, model: gpt-5.4-mini}}]}}]
telemetry: {{otlp: {self.otlp(sample)}}}
"""
        return read_config(text, source="config.yaml", env={})

    def client(self) -> CollectorClient:
        otlp = self.config(1.0).telemetry.otlp
        assert otlp is not None
        return CollectorClient(otlp)

    async def least(self, work: Callable[[], Awaitable[float]]) -> float:
        """Run once, then so many rounds. Return the least microseconds of CPU for one of what
        `work` does, whose number it returns.
        """
        await work()
        found: list[float] = []
        for _ in range(self.rounds):
            began = time.process_time()
            done = await work()
            found.append((time.process_time() - began) / done)
        return min(found) * 1e6


async def until(counts: ExportCounts, sent: int) -> None:
    """Wait until the collector has so many items. Raises RuntimeError if it has not got some."""
    while counts.sent < sent:
        if counts.dropped or counts.rejected:
            raise RuntimeError("items were dropped or rejected")
        await asyncio.sleep(0.005)


async def traced(bench: Bench, sample: float, exchange: Exchange) -> float:
    """Return the microseconds per request: its trace, an attempt, and its spans if sampled."""
    registry = CollectorRegistry()
    tracing = Tracing(registry, ignore_crash)
    tracing.configure(bench.config(sample))
    records = [ended() for _ in range(BATCH)]
    lines = [line_of(record) for record in records]
    finished: Finished = [(record, 200, 100.8, None) for record in records]
    arrived = cast("HotExchange", exchange)
    sent = 0

    async def work() -> float:
        nonlocal sent
        for _ in range(REQUESTS // BATCH):
            for record in records:
                trace = tracing.join(arrived, ROUTE)
                trace.start_attempt(100.0)
                record.trace = trace
            tracing.add(EndedRequests(finished, lines, (), (), 1, 0.0))
        if sample:
            sent += 2 * REQUESTS
            while exported(registry) < sent:  # noqa: ASYNC110  nothing announces it
                await asyncio.sleep(0.005)
        return REQUESTS

    found = await bench.least(work)
    await tracing.close(10)
    return found


def exported(registry: CollectorRegistry) -> float:
    return registry.get_sample_value("strowger_otlp_spans_total", {"outcome": "sent"}) or 0


def spans_of(bench: Bench) -> list[bytes]:
    """The spans of as many requests as one export has."""
    tracing = Tracing(CollectorRegistry(), ignore_crash)
    tracing.configure(bench.config(1.0))
    found: list[bytes] = []
    for _ in range(MAX_SENT // 2):
        record = ended()
        trace = tracing.join(cast("HotExchange", Exchange()), ROUTE)
        trace.start_attempt(100.0)
        assert trace.sampled is not None
        line = line_of(record)
        found += request_spans(record, line, trace, trace.sampled, 0.0, 100.8, {})
    return found


async def exports(bench: Bench) -> tuple[int, float]:
    """Return the bytes of one export of MAX_SENT spans, and its microseconds."""
    spans = spans_of(bench)
    resource, counts = own_resource(SCHEMA_URL), ExportCounts("spans")
    size = len(export_request(spans, resource.attributes, resource.scope, resource.schema_url))
    exporter = Exporter(SPANS, bench.client(), resource, counts, ignore_crash)

    async def work() -> float:
        sent = counts.sent + EXPORTS * MAX_SENT
        for _ in range(EXPORTS):
            exporter.add(spans)
        await until(counts, sent)
        return EXPORTS

    found = await bench.least(work)
    await exporter.close(10)
    return size, found


async def pushes(bench: Bench) -> tuple[int, int, float, float]:
    """Return a push's points, bytes, microseconds to encode, and microseconds in all."""
    metrics = GenAiMetrics(lambda _: "openai")
    for number in range(bench.backends):
        for stream in (False, True):
            metrics.observe(ended(f"openai/model-{number}", stream=stream), 100.8)
    resource, counts = own_resource(SCHEMA_URL), ExportCounts("data_points")
    encoded, points = metrics.collect()
    whole = (resource.attributes, resource.scope, resource.schema_url)
    size = len(export_request(encoded, *whole))

    async def encode() -> float:
        for _ in range(PUSHES):
            export_request(metrics.collect()[0], *whole)
        return PUSHES

    pusher = MetricPusher(0.001, bench.client(), resource, metrics.collect, counts, ignore_crash)

    async def work() -> float:
        before = counts.sent
        await until(counts, before + PUSHES * points)
        return (counts.sent - before) / points

    alone, found = await bench.least(encode), await bench.least(work)
    await pusher.close(10)
    return points, size, alone, found


async def measured(bench: Bench) -> None:
    """Measure everything, and print it."""
    print(f"µs of CPU, least of {bench.rounds} rounds")
    for name, sample, exchange in (
        ("a request's trace, not sampled", 0.0, Exchange()),
        ("the same, of a caller's trace", 0.0, Exchange(traceparent=CALLER)),
        ("a request's trace, sampled: spans built and sent", 1.0, Exchange()),
    ):
        print(f"{name:52}{await traced(bench, sample, exchange):10.2f}", flush=True)
    size, took = await exports(bench)
    print(f"{f'an export of {MAX_SENT} spans, {size:,} bytes':52}{took:10.1f}", flush=True)
    points, size, alone, took = await pushes(bench)
    name = f"a push of metrics: {points} points, {size:,} bytes"
    print(f"{name:52}{took:10.1f}   {alone:.1f} to encode")


def collect(ready: Connection) -> None:
    """Be the collector until this process is terminated. ready: receives the port."""

    async def run() -> None:
        server = await asyncio.get_running_loop().create_server(Collector, "127.0.0.1", 0)
        ready.send(server.sockets[0].getsockname()[1])
        await server.serve_forever()

    asyncio.run(run())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--backends", type=int, default=10, help="that the pushed metrics are of")
    options = parser.parse_args()
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    collector = context.Process(target=collect, args=(theirs,), daemon=True)
    collector.start()
    bench = Bench(port=ours.recv(), rounds=options.rounds, backends=options.backends)
    try:
        uvloop.run(measured(bench))
    finally:
        collector.terminate()


if __name__ == "__main__":
    main()
