"""Records and budgets are complete after a gateway in a terminal was stopped, started and killed.

`make nightly-terminal TERMINAL_S=600` runs it for so many seconds, and prints the figures.
"""

import json
import os
import sqlite3
from collections import Counter
from contextlib import closing
from pathlib import Path

import pytest
from msgspec import Struct

from tests.gateway.cli.terminals.soak import COST_USD, EARLY_USD, Sent, Soak
from tests.gateway.forked_commands import printed
from tests.stand_ins.provider import provider

pytestmark = pytest.mark.anyio

SECONDS = float(os.environ.get("STROWGER_TERMINAL_S", "600"))
LOST_S = 2.0
"""`kill -9` loses what ended in the second before it; a busy machine gets one more."""


class Recorded(Struct, frozen=True, kw_only=True):
    """What the store has. requests: the key and the status by id. attempts: their number by id.

    usage, budgets: requests and US dollars by key, as the commands show them.
    """

    requests: dict[str, tuple[str, int]]
    attempts: dict[str, int]
    usage: dict[str, tuple[int, float]]
    budgets: dict[str, float]
    audited: Counter[str]


async def recorded(config: Path) -> Recorded:
    named = ("--config", str(config), "--json")
    _, usage, _ = await printed("usage", "--by", "key", *named)
    _, budgets, _ = await printed("budgets", *named)
    _, audit, _ = await printed("audit", "--limit", "100000", *named)
    verified, _, complaint = await printed("audit", "--verify", *named[:2])
    assert verified == 0, complaint
    with closing(sqlite3.connect(config.parent / "strowger.db")) as store:
        requests = store.execute("SELECT request_id, key, status FROM requests").fetchall()
        attempts = store.execute("SELECT request_id FROM attempts").fetchall()
    return Recorded(
        requests={name: (key, status) for name, key, status in requests},
        attempts=Counter(name for (name,) in attempts),
        usage={
            row["key"]: (row["requests"], float(row["cost_usd"]))
            for row in json.loads(usage)["rows"]
        },
        budgets={
            row["budget"].removeprefix("of-"): float(row["spent"])
            for row in json.loads(budgets)["budgets"]
        },
        audited=Counter(json.loads(row)["action"] for row in audit.splitlines()),
    )


def lost(soak: Soak, found: Recorded) -> list[tuple[Sent, float]]:
    """Answers without a record, and the seconds from their end to the next kill of a server."""
    return [
        (one, min([kill - one.at for kill in soak.kills if kill >= one.at - 0.1], default=1e9))
        for one in soak.sent
        if one.name not in found.requests
    ]


async def check(folder: Path, seconds: float, pause_s: float) -> None:
    config = folder / "config.yaml"
    async with provider() as remote:
        soak = Soak(config, remote.base_url, seconds, pause_s=pause_s, seed=1)
        await soak.run()
    found = await recorded(config)
    gone = lost(soak, found)
    print(figures(soak, found, gone))

    assert len({one.name for one in soak.sent}) == len(soak.sent)
    assert [age for _, age in gone if age > LOST_S] == []
    for one in soak.sent:
        if one.name in found.requests:
            key = "" if one.status == 503 else one.key  # a gateway that ends looks at no key
            assert found.requests[one.name] == (key, one.status)
            assert found.attempts.get(one.name, 0) == (one.status == 200)
    unseen = found.requests.keys() - {one.name for one in soak.sent}
    assert len(unseen) <= soak.interrupted, "records of no request"
    assert not any(
        word in text for text in soak.screens for word in ("Traceback", "internal error")
    )
    assert found.audited["gateway.start"] == soak.starts
    check_budgets(soak, found, gone)


def check_budgets(soak: Soak, found: Recorded, gone: list[tuple[Sent, float]]) -> None:
    """What is recorded is what the reports show, and no more than the budgets have."""
    limits = {"early": EARLY_USD, "drip": soak.drip_usd}
    for key in ("open", "early", "drip"):
        served = [name for name, one in found.requests.items() if one == (key, 200)]
        spent = COST_USD * len(served)
        assert found.usage[key] == (len(served), spent)
        assert found.budgets[key] == spent
        if key not in limits:
            continue
        assert spent <= limits[key]
        answers = [one for one in soak.sent if one.key == key]
        spared = COST_USD * sum(one.key == key and one.status == 200 for one, _ in gone)
        assert COST_USD * sum(one.status == 200 for one in answers) <= limits[key] + spared
        assert {one.status for one in answers} <= {200, 429, 503}
    early = [one for one in soak.sent if one.key == "early"]
    refused = min(one.at for one in early if one.status == 429)
    if not any(one.key == "early" for one, _ in gone):
        assert not any(one.status == 200 and one.at > refused for one in early)


def figures(soak: Soak, found: Recorded, gone: list[tuple[Sent, float]]) -> str:
    statuses = Counter((one.key, one.status) for one in soak.sent)
    oldest = max((age for _, age in gone), default=0.0)
    return (
        f"\n{len(soak.sent)} complete answers {dict(sorted(statuses.items()))}, "
        f"{soak.interrupted} interrupted; {len(found.requests)} records; {soak.starts} starts; "
        f"{dict(soak.events)}; {len(gone)} answers without a record, the oldest "
        f"{oldest:.3f} s before kill -9; spent {found.budgets}"
    )


async def test_a_few_kills_and_restarts_cost_no_record_and_no_budget(tmp_path: Path) -> None:
    await check(tmp_path, 14.0, 1.2)


@pytest.mark.nightly
async def test_ten_minutes_of_kills_and_restarts_cost_no_record_and_no_budget(
    tmp_path: Path,
) -> None:
    await check(tmp_path, SECONDS, 8.0)
