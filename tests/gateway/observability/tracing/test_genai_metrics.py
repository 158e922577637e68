"""Metrics of the GenAI conventions reach the collector, held to the SDK's own histograms."""

import asyncio
from pathlib import Path

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from opentelemetry.exporter.otlp.proto.common.metrics_encoder import encode_metrics
from opentelemetry.proto.metrics.v1.metrics_pb2 import (
    AggregationTemporality,
    HistogramDataPoint,
    Metric,
    ScopeMetrics,
)
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.metrics.view import ExplicitBucketHistogramAggregation, View
from opentelemetry.sdk.resources import Resource
from opentelemetry.semconv._incubating.metrics import gen_ai_metrics

from strowger_gateway.gateway.assembly.runtime import Runtime
from strowger_gateway.gateway.config.load import read_config
from strowger_gateway.gateway.config.schema.telemetry import Otlp
from strowger_gateway.gateway.observability.otlp.collector import CollectorClient
from strowger_gateway.gateway.observability.otlp.counts import ExportCounts
from strowger_gateway.gateway.observability.otlp.histogram import (
    CumulativeHistogram,
    histogram_metric,
)
from strowger_gateway.gateway.observability.otlp.metric_pusher import MetricPusher
from strowger_gateway.gateway.observability.otlp.resource import own_resource
from strowger_gateway.gateway.observability.tracing.conventions import SCHEMA_URL
from strowger_gateway.gateway.observability.tracing.genai_metrics import SPECS, MetricSpec
from strowger_gateway.gateway.observability.tracing.part import TracingSide
from strowger_gateway.gateway.platform.background import ignore_crash
from tests.gateway.observability.otlp.fake_collector import otlp_collector, refuses, values
from tests.gateway.serving import Serving, one_model, serving
from tests.stand_ins.provider import Answer, Received, answers, provider

pytestmark = pytest.mark.anyio

DURATION, TOKENS, FIRST, PER_TOKEN = (spec.name for spec in SPECS)
DEFINED = {
    DURATION: gen_ai_metrics.create_gen_ai_client_operation_duration,
    TOKENS: gen_ai_metrics.create_gen_ai_client_token_usage,
    FIRST: gen_ai_metrics.create_gen_ai_server_time_to_first_token,
    PER_TOKEN: gen_ai_metrics.create_gen_ai_server_time_per_output_token,
}
BOUNDS = {
    DURATION: [
        *(0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64),
        *(1.28, 2.56, 5.12, 10.24, 20.48, 40.96, 81.92),
    ],
    TOKENS: [
        *(1, 4, 16, 64, 256, 1024, 4096, 16384, 65536),
        *(262144, 1048576, 4194304, 16777216, 67108864),
    ],
    FIRST: [
        *(0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1),
        *(0.25, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0),
    ],
    PER_TOKEN: [0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1.0, 2.5],
}
"""https://github.com/open-telemetry/semantic-conventions/blob/v1.37.0/docs/gen-ai/gen-ai-metrics.md"""


def config(provider_url: str, collector: str, more: str = "") -> str:
    otlp = f'endpoint: "{collector}", sample: 0, metrics_interval_s: 3600'
    return one_model(provider_url, f"telemetry: {{otlp: {{{otlp}}}}}\n{more}")


async def ask(gateway: Serving, *, stream: bool = False) -> int:
    body = {
        "model": "chat",
        "stream": stream,
        "messages": [{"role": "user", "content": "hi"}],
    }
    async with httpx.AsyncClient(base_url=gateway.url, timeout=60) as client:
        return (await client.post("/v1/chat/completions", json=body)).status_code


def points(metric: Metric) -> list[HistogramDataPoint]:
    assert metric.histogram.aggregation_temporality == (
        AggregationTemporality.AGGREGATION_TEMPORALITY_CUMULATIVE
    )
    return list(metric.histogram.data_points)


CHAT = {
    "gen_ai.operation.name": "chat",
    "gen_ai.provider.name": "openai",
    "gen_ai.request.model": "m-1",
}


async def test_requests_are_counted_whether_sampled_or_not(tmp_path: Path) -> None:
    async with provider() as backend, otlp_collector() as collector:
        async with serving(config(backend.base_url, collector.origin), tmp_path) as gateway:
            assert await ask(gateway) == 200
            assert await ask(gateway, stream=True) == 200
            await gateway.state.side(TracingSide).close(20)
            read = gateway.state.log.metrics.registry.get_sample_value
            assert read("strowger_otlp_data_points_total", {"outcome": "sent"}) == 5
        metrics = collector.metrics()

    assert collector.spans() == []
    assert set(metrics) == set(BOUNDS)
    for name, metric in metrics.items():
        for point in points(metric):
            assert list(point.explicit_bounds) == BOUNDS[name]
            assert 0 < point.start_time_unix_nano < point.time_unix_nano
    (duration,) = points(metrics[DURATION])
    assert (duration.count, values(duration)) == (2, CHAT)
    assert 0 < duration.min <= duration.max <= duration.sum < 60
    used = {values(one)["gen_ai.token.type"]: one for one in points(metrics[TOKENS])}
    assert (used["input"].count, used["input"].sum) == (2, 14)
    assert (used["output"].count, used["output"].sum) == (2, 6)
    for name in (FIRST, PER_TOKEN):
        (point,) = points(metrics[name])
        assert (point.count, values(point)) == (1, CHAT), "only a stream has these times"


async def test_failed_attempts_have_their_error(tmp_path: Path) -> None:
    seen: list[Received] = []

    async def fails_once(request: Received, answer: Answer) -> None:
        seen.append(request)
        if len(seen) == 1:
            await answer.json({"error": {"message": "no"}}, 500)
        else:
            await answers(request, answer)

    async with provider(fails_once) as backend, otlp_collector() as collector:
        async with serving(config(backend.base_url, collector.origin), tmp_path) as gateway:
            assert await ask(gateway) == 200
            await gateway.state.side(TracingSide).close(20)
        found = points(collector.metrics()[DURATION])

    by_error = {str(values(one).get("error.type", "")): one.count for one in found}
    assert by_error == {"upstream_failed": 1, "": 1}


async def test_counts_go_on_over_reloads_and_failed_pushes(tmp_path: Path) -> None:
    async with provider() as backend, otlp_collector(refuses(503, 1)) as collector:
        text = config(backend.base_url, collector.origin)
        async with serving(text, tmp_path) as gateway:
            assert await ask(gateway) == 200
            changed = text.replace("3600", "3599")
            runtime = Runtime(read_config(changed, source="c", env={}), run_dir=tmp_path)
            gateway.state.use_runtime(runtime)
            await collector.server.until(lambda: len(collector.server.requests) == 1)
            assert await ask(gateway) == 200
            await gateway.state.side(TracingSide).close(20)
            read = gateway.state.log.metrics.registry.get_sample_value
            assert read("strowger_otlp_data_points_total", {"outcome": "dropped"}) == 3
            assert read("strowger_otlp_data_points_total", {"outcome": "sent"}) == 3
            assert not [task for task in asyncio.all_tasks() if "OTLP" in task.get_name()]
            await runtime.close()
        first, second = collector.server.requests
        (point,) = points(collector.metrics()[DURATION])

    assert first.path == second.path == "/v1/metrics"
    assert point.count == 2


async def test_without_an_interval_no_metrics_are_pushed(tmp_path: Path) -> None:
    async with provider() as backend, otlp_collector() as collector:
        text = config(backend.base_url, collector.origin).replace(
            "sample: 0, metrics_interval_s: 3600", "sample: 1"
        )
        async with serving(text, tmp_path) as gateway:
            assert await ask(gateway) == 200
            await gateway.state.side(TracingSide).close(20)

    assert {one.path for one in collector.server.requests} == {"/v1/traces"}


@pytest.mark.parametrize("spec", SPECS, ids=lambda spec: spec.name)
@given(observed=st.lists(st.floats(0, 1e9), min_size=1, max_size=30))
def test_a_histogram_is_the_one_that_the_sdk_counts_and_encodes(
    spec: MetricSpec, observed: list[float]
) -> None:
    reader = InMemoryMetricReader()
    view = View(
        instrument_name=spec.name,
        aggregation=ExplicitBucketHistogramAggregation(boundaries=list(spec.bounds)),
    )
    meters = MeterProvider([reader], Resource({}), views=[view], shutdown_on_exit=False)
    official = DEFINED[spec.name](meters.get_meter("x"))
    ours = CumulativeHistogram(spec.bounds, {"a": "b"})
    for value in (*spec.bounds, *observed):
        official.record(value, {"a": "b"})
        ours.observe(value)
    data = reader.get_metrics_data()
    assert data is not None
    expected = encode_metrics(data).resource_metrics[0].scope_metrics[0].metrics[0]
    (point,) = expected.histogram.data_points
    encoded = ours.data_point(point.start_time_unix_nano, point.time_unix_nano)
    scope = ScopeMetrics.FromString(
        histogram_metric(spec.name, expected.description, spec.unit, [encoded])
    )

    (metric,) = scope.metrics
    assert metric.histogram.data_points[0].sum == pytest.approx(point.sum)
    metric.histogram.data_points[0].sum = point.sum
    assert metric == expected


@pytest.mark.parametrize("status", [429, 503])
async def test_a_collector_that_asks_for_a_pause_gets_no_push_before_its_end_but_the_last(
    status: int,
) -> None:
    counts = ExportCounts("data_points")
    histogram = CumulativeHistogram((1.0,), {})
    histogram.observe(2.0)
    point = histogram_metric("m", "", "s", [histogram.data_point(0, 1)])
    async with otlp_collector(refuses(status, 1, retry_after="60")) as collector:
        pusher = MetricPusher(
            0.01,
            CollectorClient(Otlp(endpoint=collector.origin)),
            own_resource(SCHEMA_URL),
            lambda: ([point], 1),
            counts,
            ignore_crash,
        )
        requests = collector.server.requests
        await collector.server.until(lambda: counts.dropped == 1)
        await asyncio.sleep(0.3)  # thirty intervals
        assert len(requests) == 1
        await pusher.close(20)
        assert len(requests) == 2
        assert (counts.sent, counts.dropped) == (1, 1)
