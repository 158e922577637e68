"""Budgets of each end user: what is spent is summed up by end user, in one and in many gateways."""

import random
from pathlib import Path

import pytest

from strowger_gateway.gateway.config.schema.budgets import Budget
from strowger_gateway.gateway.config.schema.limits import LimitWho
from strowger_gateway.gateway.governance.budgets.accounts import BudgetAccounts
from strowger_gateway.gateway.governance.budgets.ledger import Reservation
from strowger_gateway.gateway.governance.budgets.messages import Recorded
from strowger_gateway.gateway.governance.limits.scope import subject_of
from strowger_gateway.gateway.storage.sql.open import open_store
from strowger_gateway.gateway.storage.sql.rows import RequestRow
from strowger_gateway.gateway.storage.sql.spend_rows import Amount, Payer, Spend, SpendReading
from strowger_gateway.schemas.secret import Secret
from tests.gateway.governance.budgets.test_budgeted_requests import config, spent
from tests.gateway.governance.budgets.test_budgets_over_gateways import (
    AT,
    COST,
    OneGateway,
    running,
)
from tests.gateway.governance.end_users.test_end_user_limits import Client, metrics_of
from tests.gateway.serving import serving
from tests.gateway.storage.sql.rows import attempt_row
from tests.stand_ins.provider import provider

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("within_one_period")]

EACH = Budget(name="people", who=LimitWho(any=True), each="end_user", usd=1000 / 1e9, per="total")


async def test_each_end_user_of_a_key_has_the_whole_budget(tmp_path: Path) -> None:
    """Each request reserves 44 USD and costs 13. Records name whom a budget holds apart only."""
    budgets = "  - {name: people, who: {key: web}, each: end_user, usd: 60}"
    async with provider() as a, serving(config(a.base_url, budgets), tmp_path) as gateway:
        async with Client(gateway) as web, Client(gateway, "batch") as batch:
            anns = [await web.send(user="ann") for _ in range(3)]
            ben = await web.send(user="ben")
            unnamed = [await web.send() for _ in range(3)]
            other = await batch.send(user="ann")
        lines = gateway.access_lines()
        costs = spent(gateway)

    assert [one.status_code for one in anns] == [200, 200, 429]
    assert "the budget 'people' of 60 USD per month has 34 USD left" in anns[2].text
    assert (ben.status_code, other.status_code) == (200, 200)
    assert [one.status_code for one in unnamed] == [200, 200, 429]
    named = [line.end_user for line in lines]
    assert named[0] == named[1] == named[2] != named[3]
    assert len(named[0]) == 32
    assert named[4:] == ["none", "none", "none", ""]
    assert costs == 6 * 13


async def test_records_of_end_users_count_for_theirs_only(tmp_path: Path) -> None:
    """Two gateways share each end user's budget; a third record is another end user's."""
    store = open_store(Secret(f"sqlite:///{tmp_path / 'store.db'}"))
    for name, end_user, nanos in (("1", "ann", 900), ("2", "ben", 100), ("3", "", 1000)):
        row = RequestRow(
            request_id=name, surface="openai", time=AT, status=200, ms=1.0, key="k",
            model="chat", route="chat", end_user=end_user,
        )  # fmt: skip
        attempt = attempt_row(name, time=AT, cost=nanos / 1e9)
        store.import_rows(f"file-{name}", 0, 1, [row, attempt])
    found: dict[str, list[bool]] = {}
    async with running(OneGateway(store, EACH)) as one, running(OneGateway(store, EACH)) as other:
        for name in ("ann", "ben", "eve"):
            for turn in range(11):
                gateway = (one, other)[turn % 2]
                own = gateway.budgets.of(("k", "chat", "chat", "", "", name, ""))
                assert own is not None
                held = own.reserve(COST) or await gateway.leases.ask(own, COST)
                found.setdefault(name, []).append(isinstance(held, Reservation))

    assert sum(found["ann"]) == 1
    assert sum(found["ben"]) >= 8
    assert sum(found["eve"]) >= 9
    assert all(sum(one) <= limit for one, limit in zip(found.values(), (1, 9, 10), strict=True))


@pytest.mark.parametrize("seed", range(20))
def test_an_account_is_the_sum_of_its_end_users_records_whenever_it_is_opened(seed: int) -> None:
    """Also one that was forgotten, and with what is not in the store yet."""
    draws = random.Random(seed)
    accounts = BudgetAccounts(durable=True)
    budgets = (
        EACH,
        Budget(name="team", who=LimitWho(team="t"), each="end_user", tokens=1000, per="total"),
    )
    accounts.configure(budgets, AT)
    for name, subject in (("people", "a/x"), ("team", "y")):
        accounts.find(name, subject, AT)

    def spend() -> Spend:
        key, team = draws.choice((("a", "t"), ("b", "t"), ("c", "")))
        payer = Payer(key, team, "", "chat", "chat", draws.choice(("x", "y", "")))
        return Spend(900, payer, Amount(draws.randrange(9), draws.randrange(9)))

    first, later = [spend() for _ in range(30)], [spend() for _ in range(10)]
    whole: dict[Payer, Amount] = {}
    for one in first:
        whole[one.payer] = whole.get(one.payer, Amount()) + one.amount
    accounts.record("w", [Recorded(1, tuple(later[:5]))])
    windows = accounts.windows()
    for version, changes in ((1, None), (2, tuple(later[5:]))):
        accounts.take(
            SpendReading(
                version=version,
                whole=(whole,) * len(windows if changes is None else ()),
                changes=changes,
                imported={},
                held={},
                beats={},
            ),
            windows if changes is None else (),
        )
    everything = [*first, *later]
    for budget in budgets:
        for subject in ("a/x", "a/y", "b/x", "c/y", "x", "y"):
            account = accounts.find(budget.name, subject, AT)
            assert account is not None
            own = [
                one.amount.nanos if budget.usd else one.amount.tokens
                for one in everything
                if subject
                == subject_of(budget, one.payer.key, one.payer.team, "", one.payer.end_user)
            ]
            assert account.spent == sum(own)


async def test_limits_alone_leave_no_end_users_in_records(tmp_path: Path) -> None:
    limits = (
        "  - {name: all, who: {any: true}, tokens: 1_000_000}\n"
        "limits:\n  - {name: people, who: {any: true}, each: end_user, requests: 1}"
    )
    text = config("{url}", limits).replace("mode: keys", "mode: keys\n  metrics: open")
    async with provider() as a:
        async with serving(text.replace("{url}", a.base_url), tmp_path) as gateway:
            async with Client(gateway) as web:
                answers = [await web.send(user="ann") for _ in range(2)]
            lines, metrics = gateway.access_lines(), await metrics_of(gateway)

    assert [one.status_code for one in answers] == [200, 429]
    assert [line.end_user for line in lines] == ["", ""]
    assert "strowger_end_users 1.0" in metrics
