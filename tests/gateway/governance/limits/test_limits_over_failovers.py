"""Limits of two gateways whose Redis master is killed, behind Sentinels and in a Cluster.

STROWGER_FAILOVERS is the number of masters that the long test kills (`make nightly-tests`).
"""

import asyncio
import os
from collections.abc import AsyncGenerator, Callable, Iterator, Sequence
from contextlib import AbstractContextManager, AsyncExitStack, asynccontextmanager
from itertools import count
from pathlib import Path

import httpx
import pytest
from msgspec import Struct

from strowger_gateway.gateway.governance.limits.over_gateways.limit_shards import key_of
from tests.gateway.commanded import Commanded
from tests.gateway.forked_commands import forked
from tests.gateway.governance.limits.test_limited_requests import HELLO, says_hello
from tests.stand_ins.provider import provider
from tests.stand_ins.redis_groups.servers import (
    Cluster,
    Watched,
    running_cluster,
    running_sentinels,
    until,
)
from tests.stand_ins.redis_server import RedisServer

pytestmark = pytest.mark.anyio

FAILOVERS = int(os.environ.get("STROWGER_FAILOVERS", "8"))

STRICT = 10
KEYS = [
    "pair",
    *(f"k{at}" for at in range(2 * FAILOVERS)),
    *(f"strict{at}" for at in range(STRICT)),
]
CONFIG = """
store: {{redis_url: "{redis}"}}
server: {{drain_delay_s: 0}}
auth:
  mode: keys
  keys: [{keys}]
  metrics: open
providers:
  - {{name: one, adapter: openai, base_url: {url}, api_key: sk-of-the-operator}}
models:
  - {{name: chat, backends: [{{provider: one, model: m-1}}]}}
  - {{name: small, backends: [{{provider: one, model: m-1}}]}}
limits:
  - {{name: each, who: {{any: true}}, each: key, requests: 20, per: hour}}
  - {{name: few, who: {{key: pair}}, requests: 5, per: hour, models: [small]}}
{strict}
"""
STRICT_LIMIT = "{{name: s{0}, who: {{key: strict{0}}}, requests: 60, on_outage: refuse}}"
"""Below 64 nothing is leased in advance, so that every request needs Redis."""

SOON_S = 60.0


class Gateways(Struct, kw_only=True, eq=False):
    """clients: of one gateway each."""

    up: Sequence[Commanded]
    clients: list[httpx.AsyncClient]

    @property
    def outages(self) -> list[list[str]]:
        """What each gateway logged about Redis."""
        return [[line for line in one.lines if "Redis" in line] for one in self.up]

    async def send(self, gateway: int, key: str, model: str = "chat") -> int:
        headers = {"authorization": f"Bearer key-of-{key}-00000000"}
        body = {**HELLO, "model": model}
        client = self.clients[gateway % 2]
        return (await client.post("/v1/chat/completions", json=body, headers=headers)).status_code

    async def in_turn(self, requests: int, key: str, model: str = "chat") -> list[int]:
        return [await self.send(turn, key, model) for turn in range(requests)]

    async def synchronised(self) -> None:
        """Wait until both know of each other."""
        async with asyncio.timeout(SOON_S):
            for client in self.clients:
                while "strowger_gateways 2.0" not in (await client.get("/metrics")).text:  # noqa: ASYNC110  it is another process's
                    await asyncio.sleep(0.2)


@asynccontextmanager
async def gateways(redis: str, folder: Path) -> AsyncGenerator[Gateways, None]:
    """Two gateways behind which one backend answers."""
    keys = ", ".join(f"{{name: {name}, key: key-of-{name}-00000000}}" for name in KEYS)
    strict = "\n".join(f"  - {STRICT_LIMIT.format(at)}" for at in range(STRICT))
    async with AsyncExitStack() as stack:
        remote = await stack.enter_async_context(provider())
        remote.behaviour = says_hello
        text = CONFIG.format(redis=redis, keys=keys, url=remote.base_url, strict=strict)
        files = [folder / name / "config.yaml" for name in ("one", "two")]
        for file in files:
            file.parent.mkdir()
        up = await asyncio.gather(
            *(stack.enter_async_context(forked(file, text)) for file in files)
        )
        clients = [await stack.enter_async_context(one.client()) for one in up]
        both = Gateways(up=up, clients=clients)
        await both.synchronised()
        yield both


async def fails_over(two: Gateways, master: RedisServer, strict: Iterator[int]) -> None:
    """Kill the master under load; return when both gateways limit together again.

    Requests that only a lease of Redis may admit are refused until then, with 503 and nothing else.
    """
    seen: list[list[int]] = [[], []]

    async def load(gateway: int) -> None:
        async with asyncio.timeout(SOON_S):
            while 503 not in seen[gateway] or seen[gateway][-1] != 200:
                seen[gateway].append(await two.send(gateway, f"strict{next(strict) % STRICT}"))
                await asyncio.sleep(0.02)

    loads = [asyncio.create_task(load(gateway)) for gateway in range(2)]
    await asyncio.sleep(0.2)
    master.kill()
    await asyncio.gather(*loads)

    assert {status for each in seen for status in each} <= {200, 429, 503}
    assert all(each[0] == 200 for each in seen)


async def settled() -> None:
    """Wait until processes have given back what they do not use."""
    await asyncio.sleep(1.5)


async def limits_are_exact_over_a_failover(two: Gateways, master: RedisServer) -> None:
    before = await two.in_turn(12, "k0")
    await settled()
    await fails_over(two, master, count())
    await settled()
    after = await two.in_turn(10, "k0")
    fresh = await two.in_turn(24, "k1")

    assert before == [200] * 12
    assert after == [200] * 8 + [429] * 2
    assert fresh == [200] * 20 + [429] * 4
    await two.synchronised()


async def test_sentinels_promote_a_replica_and_limits_are_exact_again(tmp_path: Path) -> None:
    with running_sentinels() as group:
        async with gateways(group.url, tmp_path) as two:
            await limits_are_exact_over_a_failover(two, group.master())


@pytest.mark.nightly
async def test_a_cluster_promotes_a_replica_and_limits_are_exact_again(tmp_path: Path) -> None:
    with running_cluster() as group:
        async with gateways(group.url, tmp_path) as two:
            few = await two.in_turn(10, "pair", "small")
            await settled()
            kept = await two.in_turn(18, "pair")
            await limits_are_exact_over_a_failover(two, group.master_of(slot_of("s0", "")))
            places = group.keys()

    assert few == [200] * 5 + [429] * 5
    assert kept == [200] * 15 + [429] * 3
    assert sum(bool(keys) for keys in places.values()) == 3


def slot_of(limit: str, subject: str) -> str:
    """A key in the slot of a limit's account."""
    return key_of((limit, subject, "requests"), "minute", sharded=True)


@pytest.mark.nightly
@pytest.mark.parametrize("running", [running_sentinels, running_cluster])
async def test_many_failovers_one_after_the_other_leave_limits_exact(
    tmp_path: Path, running: Callable[[], AbstractContextManager[Watched | Cluster]]
) -> None:
    strict = count()
    with running() as group:
        async with gateways(group.url, tmp_path) as two:
            for turn in range(FAILOVERS):
                spent, fresh = f"k{2 * turn}", f"k{2 * turn + 1}"
                before = await two.in_turn(12, spent)
                await settled()
                key = slot_of("s0", "")
                master = group.master() if isinstance(group, Watched) else group.master_of(key)
                await fails_over(two, master, strict)
                await settled()
                after = await two.in_turn(10, spent)
                again = await two.in_turn(24, fresh)
                master.start()
                await asyncio.to_thread(until, group.formed, "the old master does not return")

                assert before == [200] * 12
                assert after == [200] * 8 + [429] * 2, (turn, two.outages)
                assert again == [200] * 20 + [429] * 4, (turn, two.outages)
