"""Usage, budgets and the audit log are complete whatever the log format, on a terminal or off it.

Two gateways one after the other for each case, all cases at the same time.
"""

import asyncio
import json
import signal
from contextlib import AbstractAsyncContextManager
from itertools import product
from pathlib import Path

import httpx
import pytest
from msgspec import Struct

from tests.gateway.cli.terminals.screen import OnScreen, serving_on_screen
from tests.gateway.commanded import SOON_S, Commanded
from tests.gateway.forked_commands import forked, printed
from tests.gateway.governance.budgets.test_budgeted_requests import PRICES
from tests.gateway.governance.limits.test_limited_requests import HELLO
from tests.gateway.serving import one_model
from tests.stand_ins.provider import provider

pytestmark = pytest.mark.anyio

CASES = tuple(product(("auto", "console", "json"), ("terminal", "pipe")))
KEY = "key-of-web-00000"
MORE = f"""
server: {{drain_delay_s: 0}}
auth: {{mode: keys, metrics: open, keys: [{{name: web, key: {KEY}}}]}}
budgets: [{{name: of-web, who: {{key: web}}, usd: 70, per: total}}]
{PRICES}
"""
"""HELLO reserves 44 USD and costs 13, so the fourth finds 31."""


class Outcome(Struct, kw_only=True):
    """first, second: the statuses of one gateway's answers. messages: of both, as shown."""

    folder: Path
    first: list[int]
    second: list[int]
    messages: str


def serve(folder: Path, text: str, where: str) -> AbstractAsyncContextManager[Commanded | OnScreen]:
    config = folder / "config.yaml"
    return serving_on_screen(config, text) if where == "terminal" else forked(config, text)


def messages_of(up: Commanded | OnScreen) -> str:
    return up.screen.shown if isinstance(up, OnScreen) else "\n".join(up.lines)


async def statuses(client: httpx.AsyncClient, requests: int) -> list[int]:
    answers = [await client.post("/v1/chat/completions", json=HELLO) for _ in range(requests)]
    return [answer.status_code for answer in answers]


async def figures(client: httpx.AsyncClient) -> dict[str, float]:
    lines = (await client.get("/metrics")).text.splitlines()
    return {
        name: float(value)
        for name, _, value in (one.rpartition(" ") for one in lines if one[0] != "#")
    }


async def run(folder: Path, url: str, style: str, where: str) -> Outcome:
    """Spend the budget, wait until the store has it, start again, and try to spend more."""
    text = one_model(url, f"{MORE}logging: {{format: {style}}}\n")
    found = Outcome(folder=folder, first=[], second=[], messages="")
    async with serve(folder, text, where) as up, up.client(authorization=f"Bearer {KEY}") as client:
        found.first = await statuses(client, 5)
        async with asyncio.timeout(SOON_S):
            while (await figures(client))["strowger_records_imported_total"] < 8:  # noqa: ASYNC110
                await asyncio.sleep(0.05)
        up.process.send_signal(signal.SIGKILL)
        await up.process.wait()
        found.messages += messages_of(up)
    async with serve(folder, text, where) as up, up.client(authorization=f"Bearer {KEY}") as client:
        found.second = await statuses(client, 2)
        up.process.terminate()
        assert await asyncio.wait_for(up.process.wait(), SOON_S) == 0
        found.messages += messages_of(up)
    return found


@pytest.fixture(scope="module")
async def outcomes(
    tmp_path_factory: pytest.TempPathFactory,
) -> dict[tuple[str, str], Outcome | BaseException]:
    async with provider() as remote:
        folders = [tmp_path_factory.mktemp("-".join(case)) for case in CASES]
        runs = [
            run(folder, remote.base_url, *case) for folder, case in zip(folders, CASES, strict=True)
        ]
        ended = await asyncio.gather(*runs, return_exceptions=True)
    return dict(zip(CASES, ended, strict=True))


@pytest.mark.parametrize("case", CASES, ids="-".join)
async def test_usage_and_the_audit_log_are_complete_and_a_spent_budget_stays_spent(
    case: tuple[str, str], outcomes: dict[tuple[str, str], Outcome | BaseException]
) -> None:
    found = outcomes[case]
    if isinstance(found, BaseException):
        raise found
    config = str(found.folder / "config.yaml")
    status, usage, complaints = await printed("usage", "--config", config, "--json")
    _, audit, _ = await printed("audit", "--config", config, "--json")
    audited = [json.loads(row)["action"] for row in audit.splitlines()]

    assert (found.first, found.second) == ([200] * 3 + [429] * 2, [429] * 2)
    assert (status, complaints) == (0, "")
    total = json.loads(usage)["total"]
    assert (total["requests"], float(total["cost_usd"])) == (3, 39.0)
    assert audited == ["gateway.start", "gateway.start", "gateway.stop"]
    assert "Traceback" not in found.messages
    assert "the importing process" not in found.messages
