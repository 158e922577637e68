"""Replicas behind one backend, found in a file and in the DNS, come and go while requests run."""

import asyncio
import json
from collections.abc import AsyncGenerator, Generator
from contextlib import AsyncExitStack
from pathlib import Path

import dns.rcode
import pytest

from tests.gateway.backends.discovery.dns_server import DnsServer, running_dns
from tests.gateway.backends.discovery.fleet import (
    ADMIN,
    CHAT,
    Fleet,
    asks,
    health,
    load_on,
    ready_says,
    slowly,
    until,
)
from tests.gateway.commanded import SOON_S, write
from tests.gateway.forked_commands import forked
from tests.stand_ins.provider import Answer, Received

pytestmark = pytest.mark.anyio

CONFIG = """
auth: {{admin_key: key-of-the-operator}}
server: {{drain_delay_s: 0.1, drain_timeout_s: 20}}
providers:
  - {{name: pool, adapter: openai, base_url: "http://pool.test/v1", api_key: sk-of-the-operator}}
models:
  - name: chat
    policy: least_busy
    retry: {{attempts: 3, backoff_s: 0.01, max_backoff_s: 0.05}}
    breaker: {{min_requests: 3, cooldown_s: 60, max_cooldown_s: 60}}
    backends: [{{provider: pool, model: m-1, discover: {discover}}}]
"""


def config(discover: str) -> str:
    return CONFIG.format(discover=discover)


@pytest.fixture
async def fleet() -> AsyncGenerator[Fleet, None]:
    async with AsyncExitStack() as stack:
        yield Fleet(stack)


async def test_replicas_of_a_file_come_and_go_under_load_and_no_request_fails(
    tmp_path: Path, fleet: Fleet
) -> None:
    one, two = await fleet.add("127.0.0.2"), await fleet.add("127.0.0.3")
    targets = tmp_path / "targets.json"
    write(targets, fleet.targets("127.0.0.2"))
    text = config("{file: targets.json, slow_start_s: 0, gauges: off}")
    async with forked(tmp_path / "config.yaml", text) as up, load_on(up) as load:
        client = up.client()
        await until(lambda: len(one.requests) > 20)
        go_on = asyncio.Event()

        async def waits(request: Received, answer: Answer) -> None:
            if not request.json.get("stream"):
                await slowly(request, answer)
                return
            await answer.begin_stream()
            await answer.text("first ")
            await go_on.wait()
            await answer.text("last")
            await answer.end_stream()

        one.behaviour = waits
        async with client.stream("POST", CHAT, json=asks(stream=True)) as streamed:
            lines = streamed.aiter_lines()
            while "first " not in await anext(lines):
                pass
            write(targets, fleet.targets("127.0.0.3"))
            await until(lambda: len(two.requests) > 20)
            before = len(one.requests)
            await until(lambda: len(two.requests) > 60)
            assert len(one.requests) == before
            go_on.set()
            assert any("last" in line for line in [line async for line in lines])

        write(targets, "[{")
        await ready_says(up, client, "it is not a list of targets")
        await up.said("cannot be looked up, keeping 1 replicas")
        metrics = (await client.get("/metrics", headers=ADMIN)).text
        assert f'strowger_discovered_replicas{{source="file {targets}"}} 1.0' in metrics
        seen = len(two.requests)
        await until(lambda: len(two.requests) > seen + 20)

        write(targets, fleet.targets("127.0.0.2", "127.0.0.3"))
        seen = len(one.requests)
        await until(lambda: len(one.requests) > seen + 20)
        assert set(await health(client)) == {f"127.0.0.{n}:{fleet.port}" for n in (2, 3)}
        assert set(load.statuses) == {200}
        assert f'"replica": "127.0.0.3:{fleet.port}"' in json.dumps(up.access)
        await client.aclose()


@pytest.fixture
def server() -> Generator[DnsServer]:
    with running_dns() as running:
        yield running


async def test_replicas_of_a_name_come_and_go_in_every_worker(
    tmp_path: Path, fleet: Fleet, server: DnsServer
) -> None:
    hosts = [f"127.0.0.{last}" for last in range(2, 6)]
    for host in hosts:
        await fleet.add(host)
    server.records = {("pool.test.", "A"): hosts[:2]}
    at = f"port: {fleet.port}, server: '{server.address}'"
    discover = f"{{dns: pool.test, {at}, slow_start_s: 0, gauges: off}}"
    gateway = forked(tmp_path / "config.yaml", config(discover), "--workers", "2")
    async with gateway as up, load_on(up) as load:
        client = up.client()
        await until(lambda: min(fleet.counts()[host] for host in hosts[:2]) > 20)

        server.records = {("pool.test.", "A"): hosts[1:]}
        await until(lambda: min(fleet.counts()[host] for host in hosts[2:]) > 20)
        gone = fleet.counts()[hosts[0]]
        seen = fleet.counts()[hosts[3]]
        await until(lambda: fleet.counts()[hosts[3]] > seen + 40)
        assert fleet.counts()[hosts[0]] == gone

        server.rcodes = {"A": dns.rcode.SERVFAIL, "AAAA": dns.rcode.SERVFAIL}
        await ready_says(up, client, "3 known replicas are used")
        seen = fleet.counts()[hosts[3]]
        await until(lambda: fleet.counts()[hosts[3]] > seen + 20)
        server.rcodes = {}

        # A replica that is there but does not answer: the others answer, and its circuit opens.
        await fleet.replicas[hosts[1]].stop()
        dead = f"{hosts[1]}:{fleet.port}"
        async with asyncio.timeout(SOON_S):
            while (await health(client))[dead]["breaker"] != "open":  # noqa: ASYNC110  the same
                await asyncio.sleep(0.05)
        others = [one["breaker"] for place, one in (await health(client)).items() if place != dead]
        assert others == ["closed", "closed"]
        assert set(load.statuses) == {200}
        await client.aclose()
