"""A collector that is dead, slow, refuses or rejects costs no request; every span is counted."""

import asyncio
import logging
import time
from pathlib import Path

import httpx
import pytest

from strowger_gateway.gateway.config.schema.telemetry import Otlp
from strowger_gateway.gateway.observability.otlp.collector import CollectorClient
from strowger_gateway.gateway.observability.otlp.counts import ExportCounts
from strowger_gateway.gateway.observability.otlp.exporter import (
    MAX_QUEUED,
    MAX_QUEUED_BYTES,
    MAX_SENT_BYTES,
    SPANS,
    Exporter,
)
from strowger_gateway.gateway.observability.otlp.resource import own_resource
from strowger_gateway.gateway.observability.tracing.conventions import SCHEMA_URL
from strowger_gateway.gateway.observability.tracing.part import TracingSide
from strowger_gateway.gateway.observability.tracing.span_message import (
    CLIENT,
    attribute,
    constant_fields,
    span,
)
from strowger_gateway.gateway.platform.background import ignore_crash
from tests.gateway.observability.otlp.fake_collector import (
    OtlpCollector,
    otlp_collector,
    partly,
    refuses,
)
from tests.gateway.serving import Serving, one_model, serving
from tests.stand_ins.ports.reserved import reserved_port
from tests.stand_ins.provider import Behaviour, provider, silent

pytestmark = pytest.mark.anyio

HELLO = {"model": "chat", "messages": [{"role": "user", "content": "hi"}]}


def traced(provider_url: str, collector: str, more: str = "") -> str:
    telemetry = f'telemetry: {{otlp: {{endpoint: "{collector}", sample: 1}}}}'
    return one_model(provider_url, f"{telemetry}\n{more}")


async def ask(gateway: Serving) -> httpx.Response:
    async with httpx.AsyncClient(base_url=gateway.url, timeout=60) as client:
        return await client.post("/v1/chat/completions", json=HELLO)


def counted(gateway: Serving) -> dict[str, float | None]:
    """The spans by outcome."""
    read = gateway.state.log.metrics.registry.get_sample_value
    names = ("sent", "rejected", "dropped")
    return {one: read("strowger_otlp_spans_total", {"outcome": one}) for one in names}


def dead() -> str:
    """An address at which nothing listens."""
    return f"http://127.0.0.1:{reserved_port()}"


async def after_one_request(
    behaviour: Behaviour, folder: Path, wait_for: int, close_s: float = 20.0
) -> tuple[dict[str, float | None], OtlpCollector]:
    """Serve one request; wait until the collector received so many exports, and shut down."""
    async with provider() as backend, otlp_collector(behaviour) as collector:
        async with serving(traced(backend.base_url, collector.origin), folder) as gateway:
            assert (await ask(gateway)).status_code == 200
            await collector.server.until(lambda: len(collector.server.requests) >= wait_for)
            await gateway.state.side(TracingSide).close(close_s)
            return counted(gateway), collector


@pytest.mark.parametrize("status", [429, 502, 503, 504])
async def test_an_export_that_is_refused_for_now_is_sent_again(tmp_path: Path, status: int) -> None:
    counts, collector = await after_one_request(refuses(status, 1), tmp_path, 2)

    first, second = collector.server.requests
    assert first.body == second.body
    assert counts == {"sent": 2, "rejected": 0, "dropped": 0}


async def test_the_wait_that_a_collector_asks_for_is_kept(tmp_path: Path) -> None:
    times: list[float] = []
    refuse = refuses(503, 1, retry_after="2")

    async def noted(request: object, answer: object) -> None:
        times.append(time.monotonic())
        await refuse(request, answer)  # pyright: ignore[reportArgumentType]

    counts, _ = await after_one_request(noted, tmp_path, 2)

    # The gateway's own first pause is at most one second.
    assert times[1] - times[0] >= 2 - 0.01  # timers may fire a little early
    assert counts == {"sent": 2, "rejected": 0, "dropped": 0}


@pytest.mark.parametrize("status", [400, 401, 413, 301])
async def test_an_export_that_is_refused_for_good_is_not_repeated(
    tmp_path: Path, status: int, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING, "strowger.otlp"):
        counts, collector = await after_one_request(refuses(status, 99), tmp_path, 1)

    assert len(collector.server.requests) == 1
    assert counts == {"sent": 0, "rejected": 2, "dropped": 0}
    assert f"answered with status {status}" in caplog.text


async def test_what_a_collector_rejects_of_an_export_is_counted(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING, "strowger.otlp"):
        counts, collector = await after_one_request(partly(1, "no such tenant"), tmp_path, 1)

    assert len(collector.server.requests) == 1, "a partial success is not repeated"
    assert counts == {"sent": 1, "rejected": 1, "dropped": 0}
    assert "1 of 2 rejected: no such tenant" in caplog.text


async def test_a_collectors_warning_is_logged_and_nothing_is_lost(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING, "strowger.otlp"):
        counts, _ = await after_one_request(partly(0, "use gzip"), tmp_path, 1)

    assert counts == {"sent": 2, "rejected": 0, "dropped": 0}
    assert "warns: use gzip" in caplog.text


async def test_a_collector_that_never_answers_delays_no_request(tmp_path: Path) -> None:
    async with provider() as backend, otlp_collector(silent) as collector:
        async with serving(traced(backend.base_url, collector.origin), tmp_path) as gateway:
            assert (await ask(gateway)).status_code == 200
            await collector.server.until(lambda: len(collector.server.requests) == 1)
            for _ in range(3):
                assert (await ask(gateway)).status_code == 200
            assert collector.server.open == 1, "the export is still waiting for its answer"
            await gateway.state.side(TracingSide).close(0.1)
            assert counted(gateway) == {"sent": 0, "rejected": 0, "dropped": 8}


async def test_spans_wait_for_a_collector_that_starts_late(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    address = dead()
    port = int(address.rpartition(":")[2])
    received = asyncio.Event()

    async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\nconnection: close\r\n\r\n")
        await writer.drain()
        writer.close()
        received.set()

    with caplog.at_level(logging.INFO, "strowger.otlp"):
        async with provider() as backend:
            async with serving(traced(backend.base_url, address), tmp_path) as gateway:
                assert (await ask(gateway)).status_code == 200
                async with asyncio.timeout(60):
                    while "accepts no spans" not in caplog.text:  # noqa: ASYNC110  only the log has it
                        await asyncio.sleep(0.02)
                server = await asyncio.start_server(accept, "127.0.0.1", port)
                async with server:
                    await asyncio.wait_for(received.wait(), 60)
                    await gateway.state.side(TracingSide).close(20)
                    assert counted(gateway) == {"sent": 2, "rejected": 0, "dropped": 0}

    assert "accepts spans again" in caplog.text


def exporter(collector: str, counts: ExportCounts) -> tuple[Exporter, CollectorClient]:
    client = CollectorClient(Otlp(endpoint=collector))
    return Exporter(SPANS, client, own_resource(SCHEMA_URL), counts, ignore_crash), client


def encoded(value: str = "") -> bytes:
    return span(
        b"t" * 16, b"2" * 16, b"", 1, 2, constant_fields("n", CLIENT, attribute("k", value))
    )


async def test_a_full_queue_drops_what_comes_then_and_counts_it() -> None:
    counts = ExportCounts("spans")
    queue, client = exporter(dead(), counts)
    queue.add([encoded() for _ in range(MAX_QUEUED)])
    assert counts.dropped == 0
    assert queue.is_full

    queue.add([encoded() for _ in range(100)])
    assert counts.dropped == 100
    await queue.close(0)
    await client.close()

    assert (counts.sent, counts.dropped) == (0, MAX_QUEUED + 100)


async def test_the_memory_of_a_queue_is_bounded() -> None:
    counts = ExportCounts("spans")
    queue, client = exporter(dead(), counts)
    one = encoded("x" * 1024) * 64
    queue.add([one] * (MAX_QUEUED_BYTES // len(one) + 50))

    assert counts.dropped == 50
    await queue.close(0)
    await client.close()


async def test_an_export_is_bounded_in_bytes() -> None:
    counts = ExportCounts("spans")
    one = encoded("x" * 1024) * 64
    async with otlp_collector() as collector:
        queue, client = exporter(collector.origin, counts)
        queue.add([one] * 100)
        await queue.close(20)
        await client.close()
        sizes = [len(request.body) for request in collector.server.requests]

    assert len(sizes) > 1
    assert max(sizes) <= MAX_SENT_BYTES + 1024
    assert (counts.sent, counts.dropped) == (100, 0)


async def test_spans_after_the_end_are_counted_as_dropped() -> None:
    counts = ExportCounts("spans")
    queue, client = exporter(dead(), counts)
    await queue.close(0)
    await client.close()
    queue.add([encoded()])

    assert counts.dropped == 1
