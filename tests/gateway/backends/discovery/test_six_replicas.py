"""Six replicas, each with its own port and queue, before a served gateway under a mixed load."""

import asyncio
import os
import random
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import pytest

from tests.gateway.backends.discovery.fleet import CHAT, Fleet, asks
from tests.gateway.commanded import Commanded, write
from tests.gateway.forked_commands import forked
from tests.stand_ins.provider import Answer, Received

pytestmark = pytest.mark.anyio

CONFIG = """
server: {drain_delay_s: 0.1}
providers:
  - {name: pool, adapter: vllm, base_url: "http://pool.test/v1"}
models:
  - name: chat
    backends: [{provider: pool, model: m-1, discover: {file: targets.json}}]
"""

HOSTS = tuple(f"127.0.0.{number}" for number in range(2, 8))

SLOTS = 4
"""Requests that a replica answers at the same time."""

CLIENTS = 12

LONG_RUN = int(os.environ.get("STROWGER_BALANCED", "9000"))
"""Requests of the nightly test."""


class Server:
    """A replica's queue. slowness: factor of each duration."""

    def __init__(self, slowness: float = 1.0) -> None:
        self._slowness = slowness
        self._slots = asyncio.Semaphore(SLOTS)
        self._draws = random.Random(1)
        self.running = self.requests = self.answered = 0

    async def answer(self, request: Received, answer: Answer) -> None:
        if request.path == "/metrics":
            waiting = self.requests - self.running
            text = (
                f'vllm:num_requests_running{{engine="0"}} {self.running}\n'
                f'vllm:num_requests_waiting{{engine="0"}} {waiting}\n'
            )
            await answer.body(text.encode(), "text/plain")
            return
        self.requests += 1
        async with self._slots:
            self.running += 1
            mixed_s = self._draws.choice((0.01, 0.02, 0.06))
            await asyncio.sleep(mixed_s * self._slowness)
            self.running -= 1
        self.requests -= 1
        self.answered += 1
        await answer.chat()


@asynccontextmanager
async def served(folder: Path, servers: dict[str, Server]) -> AsyncGenerator[Commanded, None]:
    async with AsyncExitStack() as stack:
        fleet = Fleet(stack)
        for host, server in servers.items():
            (await fleet.add(host)).behaviour = server.answer
        write(folder / "targets.json", fleet.targets(*servers))
        yield await stack.enter_async_context(forked(folder / "config.yaml", CONFIG))


async def send(up: Commanded, count: int) -> None:
    """Send so many requests, a few at a time; half of them are streams."""
    left = iter(range(count))

    async def client() -> None:
        async with up.client() as own:
            for number in left:
                sent = await own.post(CHAT, json=asks(str(number), stream=number % 2 == 0))
                assert sent.status_code == 200

    await asyncio.gather(*(client() for _ in range(CLIENTS)))


@pytest.mark.parametrize(
    ("count", "most"),
    [(480, 0.15), pytest.param(LONG_RUN, 0.05, marks=pytest.mark.nightly)],
)
async def test_equal_replicas_get_equally_many_requests(
    count: int, most: float, tmp_path: Path
) -> None:
    servers = {host: Server() for host in HOSTS}
    async with served(tmp_path, servers) as up:
        await send(up, count)

    counts = [one.answered for one in servers.values()]
    mean = count / len(HOSTS)
    assert sum(counts) == count
    assert max(abs(one - mean) for one in counts) <= most * mean


@pytest.mark.nightly
async def test_a_replica_that_is_four_times_slower_gets_about_a_quarter(tmp_path: Path) -> None:
    servers = {host: Server(4.0 if host == HOSTS[0] else 1.0) for host in HOSTS}
    async with served(tmp_path, servers) as up:
        await send(up, LONG_RUN // 3)

    slow, *others = [one.answered for one in servers.values()]
    assert 0.15 <= slow * len(others) / sum(others) <= 0.5
