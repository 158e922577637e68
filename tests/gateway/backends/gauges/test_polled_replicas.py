"""Replicas that others keep busy get fewer requests, as far as their own gauges say so."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from tests.gateway.backends.discovery.fleet import ADMIN, CHAT, Fleet, asks
from tests.gateway.commanded import SOON_S, write
from tests.gateway.forked_commands import forked
from tests.stand_ins.provider import Answer, Received

pytestmark = pytest.mark.anyio

CONFIG = """
auth: {admin_key: key-of-the-operator}
server: {drain_delay_s: 0.1}
providers:
  - {name: pool, adapter: vllm, base_url: "http://pool.test/v1", api_key: sk-of-the-operator}
models:
  - name: chat
    backends: [{provider: pool, model: m-1, discover: {file: targets.json}}]
"""


@pytest.fixture
async def fleet() -> AsyncGenerator[Fleet, None]:
    async with AsyncExitStack() as stack:
        yield Fleet(stack)


async def test_requests_go_where_the_gauges_show_room(tmp_path: Path, fleet: Fleet) -> None:
    busy = {"127.0.0.2": 40, "127.0.0.3": 0, "127.0.0.4": 40}
    for host in busy:
        replica = await fleet.add(host)
        answers = replica.behaviour

        async def measured(
            request: Received, answer: Answer, host: str = host, answers: object = answers
        ) -> None:
            if request.path == "/metrics":
                text = f'vllm:num_requests_running{{engine="0"}} {busy[host]}\n'
                await answer.body(text.encode(), "text/plain")
            else:
                await answer.chat()

        replica.behaviour = measured
    write(tmp_path / "targets.json", fleet.targets(*busy))

    async with forked(tmp_path / "config.yaml", CONFIG) as up, up.client() as client:

        async def until_running(total: float) -> None:
            wanted = f'strowger_replicas_running_requests{{provider="pool"}} {total}'
            async with asyncio.timeout(SOON_S):
                while wanted not in (await client.get("/metrics", headers=ADMIN)).text:  # noqa: ASYNC110  another process
                    await asyncio.sleep(0.05)

        async def chats(host: str, count: int) -> int:
            """How many of so many chats the replica gets."""
            one = fleet.replicas[host]
            before = sum(request.path != "/metrics" for request in one.requests)
            for turn in range(count):
                assert (await client.post(CHAT, json=asks(str(turn)))).status_code == 200
            return sum(request.path != "/metrics" for request in one.requests) - before

        await until_running(80.0)
        # Of two that are drawn, the free one is chosen: in two of three draws it is there.
        async with asyncio.timeout(SOON_S):
            while await chats("127.0.0.3", 30) < 15:
                pass

        busy.update({"127.0.0.2": 0, "127.0.0.3": 60, "127.0.0.4": 0})
        await until_running(60.0)
        async with asyncio.timeout(SOON_S):
            while await chats("127.0.0.3", 20):
                pass

    polls = [one for one in fleet.replicas["127.0.0.2"].requests if one.path == "/metrics"]
    assert all("authorization" not in one.headers for one in polls)
