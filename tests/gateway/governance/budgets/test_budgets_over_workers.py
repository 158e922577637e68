"""Budgets of a gateway with two workers, one of which is killed, and of its next start."""

import asyncio
import os
import signal
import sqlite3
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, closing
from hashlib import sha256
from pathlib import Path

import httpx
import pytest
from msgspec import Struct

from tests.gateway.commanded import SOON_S, Commanded, connected, pid_of
from tests.gateway.forked_commands import forked
from tests.gateway.governance.budgets.test_budgeted_requests import PRICES
from tests.gateway.governance.limits.test_limited_requests import HELLO, says_hello
from tests.gateway.governance.limits.test_limits_over_workers import until_received
from tests.stand_ins.provider import Answer, Provider, Received, provider

pytestmark = pytest.mark.anyio

CONFIG = """
server: {{drain_delay_s: 0}}
auth: {{mode: keys, admin_key: key-of-the-operator, metrics: open, keys: [{keys}]}}
providers:
  - {{name: remote, adapter: openai, base_url: {url}, api_key: sk-of-the-operator}}
models:
  - {{name: chat, backends: [{{provider: remote, model: m-1}}]}}
{prices}
budgets:
  - {{name: of-a, who: {{key: a}}, usd: 130}}
  - {{name: of-b, who: {{key: b}}, usd: 100}}
  - {{name: people, who: {{key: d}}, each: end_user, usd: 70}}
  - {{name: of-c, who: {{key: c}}, usd: {of_c}, per: total}}
"""
CHAT = "/v1/chat/completions"


class Spending(Struct, kw_only=True, eq=False):
    """A gateway with its provider. text: of its configuration."""

    up: Commanded
    remote: Provider
    text: str

    async def client(self, stack: AsyncExitStack, key: str, worker: int) -> httpx.AsyncClient:
        found = await connected(self.up, stack, worker)
        found.headers["authorization"] = f"Bearer key-of-{key}-00000000"
        return found

    def recorded(self, key: str) -> int:
        """What the records in the store say, in 10⁻⁹ US dollars."""
        with closing(sqlite3.connect(self.up.config.parent / "strowger.db")) as store:
            rows = store.execute(
                "SELECT a.cost_usd FROM attempts a JOIN requests r ON r.request_id = a.request_id"
                " WHERE r.key = ? AND a.role <> 'mirror' AND a.cost_usd IS NOT NULL",
                (key,),
            ).fetchall()
        return sum(round(cost * 1e9) for (cost,) in rows)

    async def metric(self, start: str) -> float:
        async with self.up.client() as client:
            text = (await client.get("/metrics")).text
        found = [line for line in text.splitlines() if line.startswith(start)]
        return float(found[0].rpartition(" ")[2]) if found else 0.0


@pytest.fixture(scope="module")
async def two(tmp_path_factory: pytest.TempPathFactory) -> AsyncGenerator[Spending, None]:
    config: Path = tmp_path_factory.mktemp("budgets") / "config.yaml"
    async with AsyncExitStack() as stack:
        remote = await stack.enter_async_context(provider())
        keys = ", ".join(f"{{name: {key}, key: key-of-{key}-00000000}}" for key in "abcd")
        text = CONFIG.format(url=remote.base_url, keys=keys, prices=PRICES, of_c="{of_c}")
        first = text.replace("{of_c}", "44")
        up = await stack.enter_async_context(forked(config, first, "--workers", "2"))
        yield Spending(up=up, remote=remote, text=text)


async def test_two_workers_spend_together_what_a_budget_has(two: Spending) -> None:
    """Each reserves 44 USD and costs 13: the eighth finds 39."""
    two.remote.behaviour = says_hello
    async with AsyncExitStack() as stack:
        clients = [await two.client(stack, "a", worker) for worker in (0, 1)]
        answers = [await clients[turn % 2].post(CHAT, json=HELLO) for turn in range(10)]

    assert [one.status_code for one in answers] == [200] * 7 + [429] * 3
    assert "has 39 USD left" in answers[-1].json()["error"]["message"]


@pytest.mark.parametrize("longest", [10**13, 10**30])
async def test_a_request_that_may_cost_more_than_any_number_is_refused(
    longest: int, two: Spending
) -> None:
    two.remote.behaviour = says_hello
    async with AsyncExitStack() as stack:
        client = await two.client(stack, "c", 0)
        refused = await client.post(CHAT, json={**HELLO, "max_tokens": longest})

    assert refused.status_code == 429
    assert refused.json()["error"]["code"] == "budget_exceeded"
    assert "lower max_tokens or shorten the prompt" in refused.json()["error"]["message"]


async def test_two_workers_hold_each_end_user_to_the_budget(two: Spending) -> None:
    """Each reserves 44 USD and costs 13: the fourth finds 31."""
    two.remote.behaviour = says_hello
    async with AsyncExitStack() as stack:
        clients = [await two.client(stack, "d", worker) for worker in (0, 1)]
        answers = {
            user: [
                await clients[turn % 2].post(CHAT, json={**HELLO, "user": user})
                for turn in range(5)
            ]
            for user in ("ann@example.com", "ben@example.com")
        }

    for found in answers.values():
        assert [one.status_code for one in found] == [200] * 3 + [429] * 2
        assert "'people' of 70 USD per month has 31 USD left" in found[-1].text


async def test_a_killed_workers_reservations_expire_and_are_reported(two: Spending) -> None:
    """Two hang at the worker, 88 of 100 USD; none of them leaves a record."""
    two.remote.behaviour = hangs
    async with AsyncExitStack() as stack:
        doomed = [await two.client(stack, "b", 1) for _ in range(2)]
        seen = len(two.remote.requests)
        tasks = [asyncio.create_task(one.post(CHAT, json=HELLO)) for one in doomed]
        await until_received(two.remote, seen + 2)
        other = await two.client(stack, "b", 0)
        refused = await other.post(CHAT, json=HELLO)
        os.kill(pid_of(await connected(two.up, stack, 1)), signal.SIGKILL)
        await asyncio.gather(*tasks, return_exceptions=True)
        two.remote.behaviour = says_hello
        at_once = await other.post(CHAT, json=HELLO)
        told = await two.up.said("worker lost", "leases have expired")
        async with asyncio.timeout(SOON_S):
            again = at_once
            while again.status_code == 429:
                await asyncio.sleep(0.05)
                again = await other.post(CHAT, json=HELLO)

    assert refused.status_code == 429
    assert at_once.status_code == 429
    assert again.status_code == 200
    assert " USD of 'of-b'" in told
    assert await two.metric("strowger_budget_expired_leases_total") == 1


async def test_a_restart_reads_what_was_spent_from_the_records(two: Spending) -> None:
    """What the killed worker had not written yet is what the gateway has reported as lost."""
    two.remote.behaviour = says_hello
    async with AsyncExitStack() as stack:
        client = await two.client(stack, "c", 0)
        before = [await client.post(CHAT, json=HELLO) for _ in range(2)]
        named = await two.client(stack, "d", 0)
        for _ in range(3):
            await named.post(CHAT, json={**HELLO, "user": "fay@example.com"})
    lost = await two.metric("strowger_budget_lost_usd_total")
    two.up.process.terminate()
    await two.up.process.wait()
    recorded = {key: two.recorded(key) for key in "abcd"}

    file = two.up.config
    async with forked(file, two.text.replace("{of_c}", "56")) as up:
        async with up.client(authorization="Bearer key-of-c-00000000") as client:
            after = [await client.post(CHAT, json=HELLO) for _ in range(2)]
        async with up.client(authorization="Bearer key-of-d-00000000") as client:
            users = [
                await client.post(CHAT, json={**HELLO, "user": user})
                for user in ("fay@example.com", "eve@example.com")
            ]
        again = Spending(up=up, remote=two.remote, text=two.text)
        spent = [
            await again.metric(f'strowger_budget_spent_usd{{budget="of-{key}",subject=""}}')
            for key in "ab"
        ]

    assert [one.status_code for one in before] == [200, 429]
    assert [one.status_code for one in after] == [429, 429]
    assert "has 43 USD left" in after[0].json()["error"]["message"]
    assert [one.status_code for one in users] == [429, 200]
    assert "has 31 USD left" in users[0].text
    fay = sha256(b"fay@example.com").hexdigest()[:32]
    with closing(sqlite3.connect(file.parent / "strowger.db")) as store:
        named = store.execute("SELECT end_user FROM spend WHERE key = 'd'").fetchall()
        dump = "\n".join(store.iterdump())
    assert (fay,) in named
    assert "example.com" not in dump
    assert recorded["a"] + recorded["d"] + round(lost * 1e9) == 16 * 13_000_000_000
    assert [round(one * 1e9) for one in spent] == [recorded["a"], recorded["b"]]


async def hangs(request: Received, answer: Answer) -> None:
    await answer.gone.wait()
