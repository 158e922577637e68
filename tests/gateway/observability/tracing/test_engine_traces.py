"""The span of a call of the local engine has the engine's own phases."""

from collections.abc import AsyncGenerator
from pathlib import Path

import httpx
import pytest

from strowger_gateway.gateway.observability.tracing.part import TracingSide
from tests.gateway.backends.engines.link.transports import TRANSPORTS, Reached, reached
from tests.gateway.observability.otlp.fake_collector import OtlpCollector, otlp_collector, values
from tests.gateway.serving import serving
from tests.gateway.shared_engine import SharedEngine

pytest.importorskip("torch")

pytestmark = pytest.mark.anyio

PHASES = ["engine.queue", "engine.prefill", "engine.decode"]


async def traced(
    engine: Reached, folder: Path, collector: OtlpCollector, sample: int, **fields: object
) -> httpx.Response:
    config = f"""
providers: [{engine.provider}]
models: [{{name: tiny, backends: [{{provider: here, model: tiny}}]}}]
telemetry: {{otlp: {{endpoint: "{collector.origin}", sample: {sample}}}}}
"""
    body = {
        "model": "tiny",
        "messages": [{"role": "user", "content": "What is 17 + 25?"}],
        **fields,
    }
    async with serving(config, folder, engine=engine) as gateway:
        async with httpx.AsyncClient(base_url=gateway.url, timeout=120) as client:
            answer = await client.post("/v1/chat/completions", json=body)
        await gateway.state.side(TracingSide).close(20)
    return answer


@pytest.fixture(params=TRANSPORTS)
async def way(
    request: pytest.FixtureRequest, tmp_path: Path, engine: SharedEngine
) -> AsyncGenerator[Reached, None]:
    async with reached(request.param, engine, tmp_path) as here:
        yield here


@pytest.mark.parametrize("fields", [{}, {"stream": True}, {"n": 3}, {"stop": ["4"]}], ids=str)
async def test_the_attempt_has_events_of_queue_prefill_and_decode(
    way: Reached, tmp_path: Path, fields: dict[str, object]
) -> None:
    async with otlp_collector() as collector:
        answer = await traced(way, tmp_path, collector, 1, **fields)

    assert answer.status_code == 200, answer.text
    _, attempt = collector.spans()
    assert [event.name for event in attempt.events] == PHASES
    times = [event.time_unix_nano for event in attempt.events]
    assert times == sorted(times)
    # The span's times are kept to a millisecond.
    assert attempt.start_time_unix_nano - 2_000_000 <= times[0]
    assert times[-1] <= attempt.end_time_unix_nano + 2_000_000
    seconds = [values(event)["strowger.engine.duration_s"] for event in attempt.events]
    assert all(isinstance(one, float) and one >= 0 for one in seconds)
    prefill = seconds[1]
    assert isinstance(prefill, float)
    assert prefill > 0
    whole = (attempt.end_time_unix_nano - attempt.start_time_unix_nano) / 1e9
    assert sum(one for one in seconds if isinstance(one, float)) <= whole + 0.002


async def test_an_attempt_that_is_not_exported_asks_for_no_phases(
    way: Reached, tmp_path: Path
) -> None:
    async with otlp_collector() as collector:
        answer = await traced(way, tmp_path, collector, 0)

    assert answer.status_code == 200
    assert collector.server.requests == []
