"""Two gateways on one PostgreSQL, one of which is killed: each alert arrives exactly once."""

import asyncio
from pathlib import Path

import pytest

from tests.gateway.commanded import SOON_S, Commanded
from tests.gateway.forked_commands import forked
from tests.gateway.governance.budgets.test_budgeted_requests import PRICES
from tests.gateway.governance.limits.test_limited_requests import HELLO
from tests.stand_ins.postgres import Postgres
from tests.stand_ins.provider import provider
from tests.stand_ins.webhook_receiver import receiver, verified

pytestmark = pytest.mark.anyio

SECRET = "secret-of-the-receiver"
CONFIG = """
server: {{drain_delay_s: 0}}
store: {{url: "{store}", spool: {spool}}}
auth: {{mode: keys, metrics: open, keys: [{{name: a, key: key-of-a-00000000}}]}}
providers:
  - {{name: remote, adapter: openai, base_url: {url}, api_key: sk-of-the-operator}}
models:
  - {{name: chat, backends: [{{provider: remote, model: m-1}}]}}
{prices}
budgets:
  - {{name: all, who: {{any: true}}, usd: 1000, per: month, alerts: [0.01, 0.03, 0.05]}}
webhooks:
  - {{name: hook, url: "{hook}", secret: {secret}}}
"""
"""A request costs 13 USD: the first, the third and the fourth one pass a threshold."""


async def answered(up: Commanded) -> None:
    async with up.client(authorization="Bearer key-of-a-00000000") as client:
        answer = await client.post("/v1/chat/completions", json=HELLO)
    assert answer.status_code == 200, answer.text


async def metric(up: Commanded, start: str) -> float:
    async with up.client() as client:
        text = (await client.get("/metrics")).text
    found = [line for line in text.splitlines() if line.startswith(start)]
    return sum(float(line.rpartition(" ")[2]) for line in found)


async def test_each_alert_arrives_once_though_a_gateway_is_killed(
    postgres: Postgres, tmp_path: Path
) -> None:
    database = postgres.new_database()
    async with provider() as remote, receiver() as hook:

        def config(name: str) -> str:
            return CONFIG.format(
                store=database,
                spool=tmp_path / name,
                url=remote.base_url,
                prices=PRICES,
                hook=hook.url,
                secret=SECRET,
            )

        one_file, two_file = tmp_path / "one.yaml", tmp_path / "two.yaml"
        async with forked(two_file, config("two")) as two:
            async with forked(one_file, config("one")) as one:
                await answered(one)
                await hook.until(lambda: len(hook.events) == 1)
                await answered(two)
                one.process.kill()
                await one.process.wait()
            await answered(two)
            await hook.until(lambda: len(hook.events) == 2)
            async with forked(one_file, config("one")) as one:
                await answered(one)
                await hook.until(lambda: len(hook.events) == 3)
                await answered(one)
                await answered(two)
                made = await metric(two, "strowger_budget_alerts_total")
                async with asyncio.timeout(SOON_S):
                    # A look at the store every two seconds, which nothing reports.
                    while await metric(two, "strowger_budget_alerts_waiting"):  # noqa: ASYNC110
                        await asyncio.sleep(0.1)

    assert [event.json["threshold"] for event in hook.events] == [0.01, 0.03, 0.05]
    assert made >= 1  # the second, which only this gateway could make
    for event in hook.events:
        created = event.headers["x-strowger-signature"].partition("=")[2].partition(",")[0]
        assert verified(event, SECRET, float(created))
