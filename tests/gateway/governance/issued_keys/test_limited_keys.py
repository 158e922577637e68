"""Issued keys with limits and budgets of their own, in running gateways."""

import asyncio
import time
from collections.abc import Generator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import httpx
import pytest

from strowger_gateway.gateway.config.schema.limits import OwnLimit
from strowger_gateway.gateway.governance.issued_keys.authority import KeyFields
from tests.gateway.governance.issued_keys.test_running_gateways import (
    CHAT,
    CONFIG,
    OPERATOR,
    TESTER,
    Rig,
    gateways,
    status,
    stop,
)
from tests.gateway.governance.limits.test_limited_requests import HELLO, says_hello
from tests.stand_ins.provider import provider
from tests.stand_ins.redis_server import RedisServer, running_redis

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("within_one_period")]

TEAM = """
prices: [{match: a/*, input: 1000000, output: 1000000}]
"""
PERIOD_S = 3600.0
LATE_S = 300.0
"""What a busy machine may add to the time of one answer."""


async def send(
    rig: Rig, process: int, secret: str, count: int, **more: str
) -> list[httpx.Response]:
    """Send requests in turn to all processes, beginning with this one."""
    headers = {"authorization": f"Bearer {secret}"}
    return [
        await rig.workers[(process + turn) % len(rig.workers)].post(
            CHAT, json=HELLO | more, headers=headers
        )
        for turn in range(count)
    ]


async def issue(rig: Rig, name: str, **fields: Any) -> str:
    """Issue a key over HTTP, and wait until it is in effect everywhere."""
    made = await rig.workers[0].post("/admin/keys", json={"name": name, **fields}, headers=OPERATOR)
    assert made.status_code == 200, made.text
    await rig.in_effect(name)
    return str(made.json()["secret"])


async def change(rig: Rig, name: str, **fields: Any) -> httpx.Response:
    answer = await rig.workers[-1].patch(f"/admin/keys/{name}", json=fields, headers=OPERATOR)
    await rig.in_effect(name)
    return answer


async def spent(rig: Rig, budget: str, amount: float) -> dict[str, Any]:
    """Wait until the store has so much."""
    while True:
        overview = (await rig.workers[0].get("/admin/budgets", headers=OPERATOR)).json()
        (found,) = [one for one in overview["budgets"] if one["budget"] == budget]
        if found["spent"] >= amount:
            return dict(found)
        await asyncio.sleep(0.05)


def codes(answers: list[httpx.Response]) -> list[int]:
    return [one.status_code for one in answers]


async def test_a_key_issued_with_limits_and_a_budget_is_held_to_them_by_every_worker(
    tmp_path: Path,
) -> None:
    url = f"sqlite:///{tmp_path / 'strowger.db'}"
    async with provider() as a:
        a.behaviour = says_hello
        text = CONFIG.format(url=url, remote=a.base_url) + TEAM
        file = (tmp_path / "config.yaml", 2)
        async with gateways(url, text, file) as rig:
            ci = await issue(rig, "ci", limits=[{"requests": 5, "per": "hour"}])
            began = time.time()
            first = await send(rig, 0, ci, 1)
            admitted = time.time()
            answers = [*first, *await send(rig, 1, ci, 7)]
            now, wait_s = time.time(), int(answers[-1].headers["retry-after-ms"]) / 1000
            changed = await change(rig, "ci", limits=[{"requests": 7, "per": "hour"}])
            more = await send(rig, 0, ci, 4)
            refused = await change(rig, "ci", limits=[{"requests": 9, "models": ["chatt"]}])
            same = await send(rig, 0, ci, 2)
            budgets = [{"usd": 30.0, "per": "day"}, {"name": "all", "tokens": 500, "per": "total"}]
            spender = await issue(rig, "spender", budgets=budgets)
            paid = await send(rig, 0, spender, 4)
            standing = await spent(rig, "key:spender/day", 10.0)
            people = {"each": "end_user", "per": "hour"}
            app = await issue(
                rig, "app", limits=[people | {"requests": 2}],
                budgets=[{"each": "end_user", "tokens": 50, "per": "total"}],
            )  # fmt: skip
            anns = await send(rig, 0, app, 3, user="ann")
            await change(rig, "app", limits=[people | {"requests": 3}])
            anns += await send(rig, 0, app, 2, user="ann")
            bens = await send(rig, 1, app, 1, user="ben")
            audit = (
                await rig.workers[0].get("/admin/audit?action=key.change", headers=OPERATOR)
            ).json()["rows"]
            shown = (await rig.workers[0].get("/admin/keys/ci", headers=OPERATOR)).json()["key"]
            await stop(rig.ups[0])
        async with gateways(url, text, file) as rig:
            again = await send(rig, 0, ci, 9), await send(rig, 1, spender, 2)
            await rig.revoke("ci")
            await rig.in_effect("ci")
            gone = await send(rig, 0, ci, 2)
            await stop(rig.ups[0])

    assert codes(answers) == [200] * 5 + [429] * 3
    error = answers[-1].json()["error"]
    assert error["code"] == "limit_exceeded"
    assert "'key:ci/hour' allows 5 requests per hour" in error["message"]
    assert answers[0].headers["x-ratelimit-limit-requests"] == "5"
    # The first of five was admitted between `began` and `admitted`, and counts for an hour.
    assert began + PERIOD_S - LATE_S < now + wait_s < admitted + PERIOD_S + 0.1
    assert changed.json()["limits"] == [shown["limits"][0]]
    assert codes(more) == [200, 200, 429, 429]
    assert refused.status_code == 400
    assert refused.json()["error"]["param"] == "limits[0].models[0]"
    assert codes(same) == [429, 429]

    assert codes(paid) == [200, 429, 429, 429]
    told = paid[-1].json()["error"]
    assert (told["code"], "'key:spender/day' of 30 USD per day" in told["message"]) == (
        "budget_exceeded",
        True,
    )
    assert codes(anns) == [200, 200, 429, 200, 429]
    assert "'key:app/hour' allows 2 requests per hour" in anns[2].json()["error"]["message"]
    assert codes(bens) == [200]
    assert (standing["spent"], standing["limit"]) == (10.0, 30.0)
    row = audit[-1]
    assert row["target"] == "ci"
    assert row["changes"] == [
        {
            "field": "limits[hour]",
            "old": "requests=5,per=hour",
            "new": "requests=7,per=hour",
        }
    ]
    assert codes(again[0]) == [200] * 7 + [429] * 2
    assert codes(again[1]) == [429] * 2
    assert codes(gone) == [401] * 2


@pytest.fixture(scope="module")
def redis() -> Generator[RedisServer]:
    with running_redis() as server:
        yield server


async def test_gateways_on_one_redis_hold_an_issued_key_to_one_limit_together(
    redis: RedisServer, tmp_path: Path
) -> None:
    url = f"sqlite:///{tmp_path / 'strowger.db'}"
    files = [tmp_path / name / "config.yaml" for name in ("one", "two")]
    for file in files:
        file.parent.mkdir()
    async with provider() as a, AsyncExitStack() as stack:
        a.behaviour = says_hello
        text = CONFIG.format(url=url, remote=a.base_url).replace(
            "store: {", f'store: {{redis_url: "{redis.url}", '
        )
        rig = await stack.enter_async_context(gateways(url, text, (files[0], 1), (files[1], 1)))
        fields = KeyFields(limits=(OwnLimit(requests=6, per="hour"),))
        made = rig.authority.create("shared", fields, TESTER)
        await rig.in_effect("shared")
        answers = await send(rig, 0, made.secret, 10)
        rig.authority.change("shared", KeyFields(limits=()), TESTER)
        await rig.in_effect("shared")
        free = [await status(one, made.secret) for one in rig.workers]

    assert codes(answers) == [200] * 6 + [429] * 4
    assert "'key:shared/hour' allows 6 requests per hour" in answers[-1].json()["error"]["message"]
    assert free == [200, 200]
