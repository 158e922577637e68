"""A reload that adds, changes or removes `telemetry.otlp` loses no span and leaves no task."""

import asyncio
from pathlib import Path

import httpx
import pytest

from strowger_gateway.gateway.assembly.runtime import Runtime
from strowger_gateway.gateway.config.load import read_config
from strowger_gateway.gateway.observability.tracing.part import TracingSide
from tests.gateway.observability.otlp.fake_collector import otlp_collector, values
from tests.gateway.serving import Serving, one_model, serving
from tests.stand_ins.provider import Answer, Received, answers, provider, silent

pytestmark = pytest.mark.anyio

HELLO = {"model": "chat", "messages": [{"role": "user", "content": "hi"}]}


def config(provider_url: str, collector: str = "") -> str:
    traced = f'telemetry: {{otlp: {{endpoint: "{collector}", sample: 1}}}}' if collector else ""
    return one_model(provider_url, traced)


async def ask(gateway: Serving) -> int:
    async with httpx.AsyncClient(base_url=gateway.url, timeout=60) as client:
        return (await client.post("/v1/chat/completions", json=HELLO)).status_code


def reload(gateway: Serving, text: str, folder: Path) -> Runtime:
    runtime = Runtime(read_config(text, source="config.yaml", env={}), run_dir=folder)
    gateway.state.use_runtime(runtime)
    return runtime


def exporting() -> list[str]:
    """The exporters that run."""
    return [task.get_name() for task in asyncio.all_tasks() if "OTLP" in task.get_name()]


async def no_exporter_left() -> None:
    async with asyncio.timeout(60):
        while exporting():  # noqa: ASYNC110  nothing reports it
            await asyncio.sleep(0.02)


class Held:
    """A provider's behaviour: answers when `release` is set."""

    def __init__(self) -> None:
        self.release = asyncio.Event()

    async def __call__(self, request: Received, answer: Answer) -> None:
        await self.release.wait()
        await answers(request, answer)


async def test_removing_the_collector_exports_requests_in_flight_and_ends_its_tasks(
    tmp_path: Path,
) -> None:
    held = Held()
    async with provider(held) as backend, otlp_collector() as collector:
        async with serving(config(backend.base_url, collector.origin), tmp_path) as gateway:
            asked = asyncio.create_task(ask(gateway))
            await backend.until(lambda: len(backend.requests) == 1)
            later = reload(gateway, config(backend.base_url), tmp_path)
            held.release.set()
            assert await asked == 200
            assert await ask(gateway) == 200
            spans = await collector.received(2)
            await no_exporter_left()
            await later.close()
            read = gateway.state.log.metrics.registry.get_sample_value
            assert read("strowger_otlp_spans_total", {"outcome": "dropped"}) == 0

    assert len(spans) == 2, "the request after the reload is not traced"
    assert "traceparent" in backend.requests[0].headers
    assert "traceparent" not in backend.requests[1].headers


async def test_a_new_collector_gets_the_requests_that_begin_after_the_reload(
    tmp_path: Path,
) -> None:
    held = Held()
    async with provider(held) as backend, otlp_collector() as old, otlp_collector() as new:
        async with serving(config(backend.base_url, old.origin), tmp_path) as gateway:
            first = asyncio.create_task(ask(gateway))
            await backend.until(lambda: len(backend.requests) == 1)
            later = reload(gateway, config(backend.base_url, new.origin), tmp_path)
            second = asyncio.create_task(ask(gateway))
            await backend.until(lambda: len(backend.requests) == 2)
            held.release.set()
            assert (await first, await second) == (200, 200)
            await old.received(2)
            await new.received(2)
            await gateway.state.side(TracingSide).close(20)
            assert exporting() == []
            await later.close()

    for collector, request in ((old, backend.requests[0]), (new, backend.requests[1])):
        server, attempt = collector.spans()
        assert attempt.parent_span_id == server.span_id
        assert attempt.span_id.hex() in request.headers["traceparent"]


async def test_adding_a_collector_traces_what_begins_then(tmp_path: Path) -> None:
    async with provider() as backend, otlp_collector() as collector:
        async with serving(config(backend.base_url), tmp_path) as gateway:
            assert await ask(gateway) == 200
            later = reload(gateway, config(backend.base_url, collector.origin), tmp_path)
            assert await ask(gateway) == 200
            await collector.received(2)
            await gateway.state.side(TracingSide).close(20)
            await later.close()

    assert len(collector.spans()) == 2
    assert "traceparent" not in backend.requests[0].headers


async def test_spans_that_are_queued_reach_the_collector_that_is_removed(tmp_path: Path) -> None:
    async with provider() as backend, otlp_collector() as collector:
        async with serving(config(backend.base_url, collector.origin), tmp_path) as gateway:
            for _ in range(5):
                assert await ask(gateway) == 200
            later = reload(gateway, config(backend.base_url), tmp_path)
            await collector.received(10)
            await no_exporter_left()
            await later.close()


async def test_a_shutdown_sends_what_is_left_for_a_collector_that_a_reload_removed(
    tmp_path: Path,
) -> None:
    async with provider() as backend, otlp_collector() as collector:
        async with serving(config(backend.base_url, collector.origin), tmp_path) as gateway:
            assert await ask(gateway) == 200
            later = reload(gateway, config(backend.base_url), tmp_path)
            await gateway.state.side(TracingSide).close(20)
            assert exporting() == []
            assert len(collector.spans()) == 2
            await later.close()


async def test_a_removed_collector_that_never_answers_is_given_up_at_shutdown(
    tmp_path: Path,
) -> None:
    async with provider() as backend, otlp_collector(silent) as collector:
        async with serving(config(backend.base_url, collector.origin), tmp_path) as gateway:
            assert await ask(gateway) == 200
            later = reload(gateway, config(backend.base_url), tmp_path)
            await gateway.state.side(TracingSide).close(0.1)
            assert exporting() == []
            read = gateway.state.log.metrics.registry.get_sample_value
            assert read("strowger_otlp_spans_total", {"outcome": "dropped"}) == 2
            await later.close()


async def test_a_reload_that_keeps_the_collector_keeps_its_connection(tmp_path: Path) -> None:
    async with provider() as backend, otlp_collector() as collector:
        text = config(backend.base_url, collector.origin)
        async with serving(text, tmp_path) as gateway:
            assert await ask(gateway) == 200
            await collector.received(2)
            later = reload(gateway, text, tmp_path)
            assert await ask(gateway) == 200
            await collector.received(4)
            assert collector.server.accepted == 1
            await gateway.state.side(TracingSide).close(20)
            await later.close()

    instances = {values(one.resource)["service.instance.id"] for one in collector.resource_spans()}
    assert len(instances) == 1
