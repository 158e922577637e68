"""Gateways with one store: together within a budget, whatever dies, is late, or does not answer."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from time import monotonic

import pytest

from strowger_gateway.gateway.config.schema.budgets import Budget
from strowger_gateway.gateway.config.schema.limits import LimitWho
from strowger_gateway.gateway.governance.budgets.budgets import Budgets
from strowger_gateway.gateway.governance.budgets.lease_leader import FRESH_S, BudgetLeaseLeader
from strowger_gateway.gateway.governance.budgets.lease_worker import BudgetLeaseWorker
from strowger_gateway.gateway.governance.budgets.ledger import Cost, Reservation, Shortfall
from strowger_gateway.gateway.governance.budgets.sync import BudgetSync
from strowger_gateway.gateway.storage.sql.errors import StoreUnavailable
from strowger_gateway.gateway.storage.sql.open import open_store
from strowger_gateway.gateway.storage.sql.rows import RequestRow
from strowger_gateway.gateway.storage.sql.sql import SqlStore
from strowger_gateway.schemas.errors import Unavailable
from strowger_gateway.schemas.secret import Secret
from tests.gateway.storage.sql.rows import attempt_row

pytestmark = pytest.mark.anyio

AT = 4_000_000_000.0
BUDGET = Budget(name="all", who=LimitWho(any=True), usd=1000 / 1e9)
COST = Cost(100, 1)
"""A tenth of the budget."""


class OneGateway:
    """A gateway of one process, without the requests: its budgets and their connection."""

    def __init__(self, store: SqlStore, budget: Budget = BUDGET) -> None:
        self.leader = BudgetLeaseLeader(lambda: budgets, durable=True, clock=lambda: AT)
        budgets = (budget,)
        self.sync = BudgetSync(self.leader, store.spend, monotonic)
        self.budgets = Budgets(budgets, "writer")
        self.leases = BudgetLeaseWorker(
            self.budgets, lambda message: self.leader.on_message(0, message), lambda: None
        )
        self.leader.join(0, self.leases.on_message)

    async def request(self) -> Reservation | tuple[Shortfall, ...]:
        own = self.budgets.of(("k", "chat", "chat", "", "", "", ""))
        assert own is not None
        return own.reserve(COST) or await self.leases.ask(own, COST)


@asynccontextmanager
async def running(gateway: OneGateway) -> AsyncGenerator[OneGateway, None]:
    await gateway.sync.start()
    reporting = asyncio.create_task(gateway.leases.report())
    try:
        yield gateway
    finally:
        reporting.cancel()
        await gateway.sync.close()


@pytest.fixture
def store(tmp_path: Path) -> SqlStore:
    return open_store(Secret(f"sqlite:///{tmp_path / 'store.db'}"))


def record(store: SqlStore, name: str, nanos: int) -> None:
    """A record of another gateway reaches the store, perhaps late."""
    row = RequestRow(
        surface="openai",
        request_id=name,
        time=AT,
        status=200,
        ms=1.0,
        key="k",
        model="chat",
        route="chat",
    )
    store.import_rows(f"file-{name}", 0, 1, [row, attempt_row(name, time=AT, cost=nanos / 1e9)])


async def test_two_gateways_reserve_together_exactly_the_budget(store: SqlStore) -> None:
    """Each may lease more than it needs while there is much, and gives it back."""
    async with running(OneGateway(store)) as one, running(OneGateway(store)) as other:
        admitted, end = 0, monotonic() + 20
        while admitted < 10 and monotonic() < end:
            found = await (one, other)[admitted % 2].request()
            admitted += isinstance(found, Reservation)
            if not isinstance(found, Reservation):
                await asyncio.sleep(0.1)
        refused = [await gateway.request() for gateway in (one, other)]

    assert admitted == 10
    for found in refused:
        assert isinstance(found, tuple)
        assert found[0].budget == "all"


async def test_what_another_gateway_has_reserved_is_not_spent(store: SqlStore) -> None:
    async with running(OneGateway(store)) as one, running(OneGateway(store)) as other:
        for turn in range(10):
            assert isinstance(await (one, other)[turn % 2].request(), Reservation)
        reserved = await one.request()
        record(store, "used", 1000)
        await asyncio.sleep(2 * FRESH_S)
        used_up = await one.request()

    assert isinstance(reserved, tuple)
    assert [(short.spent, short.only_reserved) for short in reserved] == [(0, True)]
    assert isinstance(used_up, tuple)
    assert [(short.spent, short.only_reserved) for short in used_up] == [(1000, False)]


async def test_records_that_are_imported_late_count(store: SqlStore) -> None:
    async with running(OneGateway(store)) as gateway:
        first = await gateway.request()
        record(store, "late", 850)
        await asyncio.sleep(1.3)  # the next reading
        second = await gateway.request()
        (account,) = gateway.leader.accounts

    assert isinstance(first, Reservation)
    assert account.stored == 850
    assert isinstance(second, tuple)
    assert second[0].left == 50


async def test_what_was_spent_before_a_start_is_known_at_its_first_request(store: SqlStore) -> None:
    record(store, "earlier", 950)
    async with running(OneGateway(store)) as gateway:
        found = await gateway.request()

    assert isinstance(found, tuple)
    assert found[0].left == 50


async def test_a_gateway_that_leaves_gives_back_what_it_holds(store: SqlStore) -> None:
    async with running(OneGateway(store)) as one:
        held = [await one.request() for _ in range(10)]
    async with running(OneGateway(store)) as other:
        found = await other.request()

    assert all(isinstance(one, Reservation) for one in held)
    assert isinstance(found, Reservation)


@pytest.mark.parametrize("policy", ["local", "refuse"])
async def test_without_the_store_the_operator_decides(
    policy: str, store: SqlStore, tmp_path: Path
) -> None:
    budget = Budget(
        name="all", who=LimitWho(any=True), usd=1000 / 1e9,
        on_outage="refuse" if policy == "refuse" else "local",
    )  # fmt: skip
    folder = tmp_path / "away"
    away = open_store(Secret(f"sqlite:///{folder / 'store.db'}"))
    with pytest.raises(StoreUnavailable):
        away.ping()
    async with running(OneGateway(away, budget)) as gateway:
        if policy == "refuse":
            with pytest.raises(Unavailable, match="the store does not answer"):
                await gateway.request()
            return
        found = [await gateway.request() for _ in range(11)]

    assert [isinstance(one, Reservation) for one in found] == [True] * 10 + [False]
