"""Spans are built after the turn that logs their requests: none is lost, and few wait."""

import asyncio
from pathlib import Path
from typing import cast

import httpx
import pytest
from litestar.types import HTTPScope, Receive, Send
from prometheus_client import CollectorRegistry

from strowger_gateway.gateway.config.load import read_config
from strowger_gateway.gateway.observability.recording.ended_requests import EndedRequests
from strowger_gateway.gateway.observability.telemetry.access_log import AccessLine
from strowger_gateway.gateway.observability.tracing.part import TracingSide
from strowger_gateway.gateway.observability.tracing.tracing import MAX_ENDED, Tracing
from strowger_gateway.gateway.platform.background import ignore_crash
from strowger_gateway.gateway.routing.request_record import RequestRecord, new_request_id
from strowger_gateway.gateway.server.asgi.exchange import AsgiExchange, HotExchange
from strowger_gateway.gateway.surfaces.openai.surface import ROUTES
from tests.gateway.observability.otlp.fake_collector import OtlpCollector, otlp_collector
from tests.gateway.serving import one_model, serving
from tests.stand_ins.provider import provider

pytestmark = pytest.mark.anyio

HELLO = {"model": "chat", "messages": [{"role": "user", "content": "hi"}]}
SCOPE: dict[str, object] = {
    "method": "POST",
    "path": "/v1/chat/completions",
    "scheme": "http",
    "headers": [],
}


def traced(collector: OtlpCollector) -> str:
    return f'telemetry: {{otlp: {{endpoint: "{collector.origin}", sample: 1}}}}'


async def test_a_shutdown_exports_requests_that_have_just_ended(tmp_path: Path) -> None:
    async with (
        provider() as backend,
        otlp_collector() as collector,
        serving(one_model(backend.base_url, traced(collector)), tmp_path) as gateway,
        httpx.AsyncClient(base_url=gateway.url, timeout=60) as client,
    ):
        answers = await asyncio.gather(
            *(client.post("/v1/chat/completions", json=HELLO) for _ in range(120))
        )
        await gateway.state.side(TracingSide).close(20)

        assert {one.status_code for one in answers} == {200}
        ids = {one.headers["x-request-id"] for one in answers}
        exported = [
            pair.value.string_value
            for span in collector.spans()
            for pair in span.attributes
            if pair.key == "strowger.request_id"
        ]
        assert len(collector.spans()) == 240
        assert len(exported) == 120
        assert set(exported) == ids


async def test_more_requests_than_may_wait_are_dropped_and_counted() -> None:
    registry = CollectorRegistry()
    async with otlp_collector() as collector:
        tracing = Tracing(registry, ignore_crash)
        text = one_model("http://127.0.0.1:1/v1", traced(collector))
        tracing.configure(read_config(text, source="config.yaml", env={}))
        ended = [one_request(tracing) for _ in range(MAX_ENDED + 7)]

        lines = [line(record) for record, *_ in ended]
        tracing.add(EndedRequests(ended, lines, (), (), 1, 0.0))
        await tracing.close(20)

        counted = {
            one: registry.get_sample_value("strowger_otlp_spans_total", {"outcome": one})
            for one in ("sent", "rejected", "dropped")
        }
        assert counted == {"sent": MAX_ENDED, "rejected": 0, "dropped": 7}
        assert len(collector.spans()) == MAX_ENDED


def one_request(tracing: Tracing) -> tuple[RequestRecord, int, float, object]:
    """A sampled request that has ended, without an attempt."""
    scope = cast("HTTPScope", cast("object", SCOPE))
    exchange = AsgiExchange(scope, cast("Receive", None), cast("Send", None))
    record = RequestRecord(request_id=new_request_id(), started=1.0, attempts=[])
    record.trace = tracing.join(cast("HotExchange", exchange), ROUTES[0])
    return record, 503, 2.0, None


def line(record: RequestRecord) -> AccessLine:
    return AccessLine(time=0.0, request_id=record.request_id, surface="openai", status=503, ms=1.0)
