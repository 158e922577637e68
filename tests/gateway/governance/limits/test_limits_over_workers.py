"""Limits of a gateway with two workers, one of which is killed."""

import asyncio
import os
import signal
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack
from pathlib import Path

import httpx
import pytest

from tests.gateway.commanded import SOON_S, Commanded, connected, pid_of
from tests.gateway.forked_commands import forked
from tests.gateway.governance.limits.test_limited_requests import HELLO, says_hello
from tests.stand_ins.provider import Answer, Provider, Received, provider

pytestmark = pytest.mark.anyio

CONFIG = """
auth:
  mode: keys
  admin_key: key-of-the-operator
  keys:
    - {{name: a, key: key-of-a-00000000}}
    - {{name: b, key: key-of-b-00000000}}
    - {{name: c, key: key-of-c-00000000}}
    - {{name: d, key: key-of-d-00000000}}
    - {{name: f, key: key-of-f-00000000}}
providers:
  - {{name: one, adapter: openai, base_url: {url}, api_key: sk-of-the-operator}}
models:
  - {{name: chat, backends: [{{provider: one, model: m-1}}]}}
limits:
  - {{name: burst, who: {{key: a}}, requests: 20, per: hour}}
  - {{name: tokens, who: {{key: b}}, tokens: 300, per: hour}}
  - {{name: seats, who: {{key: c}}, concurrent: 4, requests: 1000, per: hour}}
  - {{name: people, who: {{key: f}}, each: end_user, requests: 5, per: hour}}
  - {{name: reloaded, who: {{key: d}}, requests: {reloaded}, per: hour}}
"""
CHAT = "/v1/chat/completions"


class TwoWorkers:
    """A gateway of two workers and its provider. go: lets the provider answer."""

    def __init__(self, up: Commanded, remote: Provider) -> None:
        self.up = up
        self.remote = remote
        self.go = asyncio.Event()

    async def waits(self, request: Received, answer: Answer) -> None:
        await self.go.wait()
        await answer.chat()

    async def clients(self, stack: AsyncExitStack, key: str) -> tuple[httpx.AsyncClient, ...]:
        """A client of each worker."""
        found = [await connected(self.up, stack, number) for number in (0, 1)]
        for client in found:
            client.headers["authorization"] = f"Bearer key-of-{key}-00000000"
        return tuple(found)


@pytest.fixture(scope="module")
async def two(tmp_path_factory: pytest.TempPathFactory) -> AsyncGenerator[TwoWorkers, None]:
    config: Path = tmp_path_factory.mktemp("limits") / "config.yaml"
    async with AsyncExitStack() as stack:
        remote = await stack.enter_async_context(provider())
        text = CONFIG.format(url=remote.base_url, reloaded=3)
        up = await stack.enter_async_context(forked(config, text, "--workers", "2"))
        yield TwoWorkers(up, remote)


async def test_two_workers_admit_together_exactly_the_limit(two: TwoWorkers) -> None:
    two.remote.behaviour = says_hello
    async with AsyncExitStack() as stack:
        clients = await two.clients(stack, "a")
        answers = [await clients[turn % 2].post(CHAT, json=HELLO) for turn in range(26)]

    statuses = [one.status_code for one in answers]
    assert statuses == [200] * 20 + [429] * 6
    assert 3500 < int(answers[-1].headers["retry-after"]) <= 3600
    assert "'burst' allows 20 requests per hour" in answers[-1].json()["error"]["message"]
    assert answers[0].headers["x-ratelimit-limit-requests"] == "20"
    assert answers[19].headers["x-ratelimit-remaining-requests"] == "0"


async def test_two_workers_hold_each_end_user_to_exactly_the_limit(two: TwoWorkers) -> None:
    two.remote.behaviour = says_hello
    async with AsyncExitStack() as stack:
        clients = await two.clients(stack, "f")
        answers = {
            user: [
                await clients[turn % 2].post(CHAT, json={**HELLO, "user": user})
                for turn in range(8)
            ]
            for user in ("ann", "ben")
        }
        query = {"key": "f", "end_user": "ann"}
        for client in clients:
            client.headers["authorization"] = "Bearer key-of-the-operator"
        async with asyncio.timeout(SOON_S):
            while True:
                shown = [await one.get("/admin/limits", params=query) for one in clients]
                standings = [one.json()["limits"][0] for one in shown]
                if all(one["used"] == 5 for one in standings):
                    break
                await asyncio.sleep(0.05)
        explained = await clients[1].post("/admin/explain?key=f", json={**HELLO, "user": "ann"})

    assert explained.json()["refused"]["code"] == "limit_exceeded"
    for standing in standings:
        assert standing["limit"] == "people"
        assert (standing["left"], standing["reserved"]) == (0, 0)
        assert 3500 < standing["resets_s"] <= 3600
    for found in answers.values():
        assert [one.status_code for one in found] == [200] * 5 + [429] * 3
        assert found[0].headers["x-ratelimit-remaining-requests"] == "4"
        assert "'people' allows 5 requests per hour" in found[7].json()["error"]["message"]


async def test_a_burst_at_both_workers_is_admitted_up_to_the_limit_of_tokens(
    two: TwoWorkers,
) -> None:
    """Each reserves 24 tokens and uses 10; what it does not use admits others."""
    two.remote.behaviour = says_hello
    admitted = 0
    async with AsyncExitStack() as stack:
        clients = await two.clients(stack, "b")
        for turn in range(40):
            answer = await clients[turn % 2].post(CHAT, json=HELLO)
            admitted += answer.status_code == 200

    # After 28 requests 280 tokens are used, and 20 are too few for another reservation.
    assert admitted == 28


async def test_seats_are_shared_and_those_of_a_killed_worker_return(two: TwoWorkers) -> None:
    two.remote.behaviour = two.waits
    two.go.clear()
    async with AsyncExitStack() as stack:
        first, second = await two.clients(stack, "c")
        others = [await stack.enter_async_context(two.up.client(**_key("c"))) for _ in range(2)]
        seen = len(two.remote.requests)
        mine = [asyncio.create_task(first.post(CHAT, json=HELLO))]
        await until_received(two.remote, seen + 1)
        second_task = asyncio.create_task(second.post(CHAT, json=HELLO))
        await until_received(two.remote, seen + 2)
        mine += [asyncio.create_task(one.post(CHAT, json=HELLO)) for one in others]
        await until_received(two.remote, seen + 4)
        async with two.up.client(**_key("c")) as fifth:
            refused = await fifth.post(CHAT, json=HELLO)

        os.kill(await _pid(two, stack, 1), signal.SIGKILL)
        await asyncio.gather(second_task, return_exceptions=True)
        two.go.set()
        results = await asyncio.gather(*mine, return_exceptions=True)
        two.remote.behaviour = two.waits
        two.go.clear()
        seen = len(two.remote.requests)
        clients = [await stack.enter_async_context(two.up.client(**_key("c"))) for _ in range(4)]
        again = [asyncio.create_task(one.post(CHAT, json=HELLO)) for one in clients]
        await until_received(two.remote, seen + 4)
        two.go.set()
        answers = await asyncio.gather(*again)

    assert refused.status_code == 429
    assert "'seats' allows 4 concurrent requests" in refused.json()["error"]["message"]
    assert len(results) == 3
    assert [one.status_code for one in answers] == [200] * 4


async def test_a_reload_raises_a_limit_in_both_workers(two: TwoWorkers) -> None:
    two.remote.behaviour = says_hello
    async with AsyncExitStack() as stack:
        clients = await two.clients(stack, "d")
        before = [await clients[turn % 2].post(CHAT, json=HELLO) for turn in range(5)]
        await two.up.reload(CONFIG.format(url=two.remote.base_url, reloaded=5))
        after = [await clients[turn % 2].post(CHAT, json=HELLO) for turn in range(5)]

    assert [one.status_code for one in before] == [200, 200, 200, 429, 429]
    assert [one.status_code for one in after] == [200, 200, 429, 429, 429]


async def until_received(remote: Provider, count: int) -> None:
    async with asyncio.timeout(SOON_S):
        while len(remote.requests) < count:  # noqa: ASYNC110  it has no event
            await asyncio.sleep(0.01)


def _key(name: str) -> dict[str, str]:
    return {"authorization": f"Bearer key-of-{name}-00000000"}


async def _pid(two: TwoWorkers, stack: AsyncExitStack, worker: int) -> int:
    return pid_of(await connected(two.up, stack, worker))
