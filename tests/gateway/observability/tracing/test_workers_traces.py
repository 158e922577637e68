"""`strowger serve` with several workers: each exports what it served, also on shutdown."""

import asyncio
import signal
from collections import Counter
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from tests.gateway.commanded import connected, pid_of
from tests.gateway.forked_commands import forked
from tests.gateway.observability.otlp.fake_collector import otlp_collector, values
from tests.gateway.serving import one_model
from tests.stand_ins.provider import provider

pytestmark = pytest.mark.anyio

HELLO = {"model": "chat", "messages": [{"role": "user", "content": "hi"}]}
EACH = 5


async def test_every_worker_exports_as_an_instance_of_the_service(tmp_path: Path) -> None:
    async with AsyncExitStack() as stack:
        backend = await stack.enter_async_context(provider())
        collector = await stack.enter_async_context(otlp_collector())
        more = f"""
server: {{workers: 2, drain_delay_s: 0}}
store: {{url: "sqlite:///{tmp_path / "strowger.db"}"}}
telemetry: {{otlp: {{endpoint: "{collector.origin}", sample: 1}}}}
"""
        config = one_model(backend.base_url, more)
        up = await stack.enter_async_context(forked(tmp_path / "config.yaml", config))
        pids: list[int] = []
        async with AsyncExitStack() as clients:
            for worker in (0, 1):
                client = await connected(up, clients, worker)
                pids.append(pid_of(client))
                for _ in range(EACH):
                    answer = await client.post("/v1/chat/completions", json=HELLO)
                    assert answer.status_code == 200
            counted = (await client.get("/metrics")).text
        assert 'strowger_otlp_spans_total{outcome="sent"}' in counted
        up.process.send_signal(signal.SIGTERM)
        assert await asyncio.wait_for(up.process.wait(), 120) == 0
        spans: Counter[str] = Counter()
        of_pids: dict[str, object] = {}
        for one in collector.resource_spans():
            found = values(one.resource)
            instance = str(found["service.instance.id"])
            of_pids[instance] = found["process.pid"]
            spans[instance] += sum(len(scope.spans) for scope in one.scope_spans)

    assert sorted(str(pid) for pid in of_pids.values()) == sorted(map(str, pids))
    assert list(spans.values()) == [2 * EACH, 2 * EACH]
