"""A clock that jumps forward for a while delays nothing once it is right again."""

from pathlib import Path

import pytest
from msgspec import Struct

from strowger_gateway.gateway.config.schema.budgets import Budget
from strowger_gateway.gateway.config.schema.limits import LimitWho
from strowger_gateway.gateway.config.schema.responses import ResponsesConfig
from strowger_gateway.gateway.content.stored_responses.archive import ResponseArchive
from strowger_gateway.gateway.content.stored_responses.seals import Seals
from strowger_gateway.gateway.governance.budgets.accounts import BudgetAccounts
from strowger_gateway.gateway.observability.recording.importer import Importer
from strowger_gateway.gateway.observability.recording.spool import Spool
from strowger_gateway.gateway.storage.sql.errors import StoreUnavailable
from strowger_gateway.gateway.storage.sql.open import open_store
from strowger_gateway.gateway.storage.sql.response_rows import ResponseRows
from strowger_gateway.gateway.storage.sql.sql import SqlStore
from strowger_gateway.gateway.storage.sql.sqlite import SqliteDriver
from strowger_gateway.schemas.secret import Secret

pytestmark = pytest.mark.anyio

HOUR_S, DAY_S = 3_600.0, 86_400.0


class Wall(Struct):
    at: float = 1_800_000_000.0

    def __call__(self) -> float:
        return self.at


def opened(folder: Path) -> SqlStore:
    return open_store(Secret(f"sqlite:///{folder / 'store.db'}"))


@pytest.mark.parametrize("jump_s", [DAY_S, -HOUR_S])
def test_old_records_are_removed_in_the_hour_after_the_clock_is_right_again(
    tmp_path: Path, jump_s: float
) -> None:
    times: list[float] = []
    wall = Wall()

    class Pruned(SqlStore):
        def prune(
            self,
            before: float,
            waiting_before: float,
            usage_before: float = 0.0,
            payloads_before: float = 0.0,
        ) -> int:
            times.append(wall.at)
            return super().prune(before, waiting_before, usage_before, payloads_before)

    store = Pruned(SqliteDriver(tmp_path / "store.db"))
    importer = Importer(Spool(tmp_path / "spool"), store, clock=wall)
    begin = wall.at
    for at in (begin, begin + jump_s, begin + 60, begin + HOUR_S + 61):
        wall.at = at
        importer.import_once()
    store.close()

    assert times[-1] == begin + HOUR_S + 61
    assert len(times) >= 3


@pytest.mark.parametrize("jump_s", [DAY_S, -HOUR_S])
async def test_seals_get_the_shared_key_as_soon_as_the_store_is_back(
    tmp_path: Path, jump_s: float
) -> None:
    class Away:
        def keys(self, at: float, valid_s: float) -> list[str]:
            if away:
                raise StoreUnavailable("away")
            return ["shared" * 8]

    away, wall = True, Wall()
    seals = Seals(ResponsesConfig, Away(), wall)
    wall.at += jump_s if jump_s > 0 else 0.0
    await seals.ready()
    away = False
    wall.at += -jump_s if jump_s > 0 else jump_s
    await seals.ready()

    other = Seals(ResponsesConfig, Away(), wall)
    assert await other.open("ann", seals.seal("ann", b"[1]"), 100) == b"[1]"


def test_the_sweep_of_stored_responses_goes_on(tmp_path: Path) -> None:
    wall, store = Wall(), opened(tmp_path)
    asked: list[float] = []

    class Rows(ResponseRows):
        def remove_before(self, time: float) -> int:
            asked.append(time)
            return 0

    rows = Rows(store.database)
    archive = ResponseArchive(store, rows, ResponsesConfig, clock=wall)
    begin = wall.at
    for at in (begin + DAY_S, begin, begin - HOUR_S, begin + HOUR_S + 60):
        wall.at = at
        archive.sweep_once()
    archive.close()
    store.close()

    assert [at + 30 * DAY_S for at in asked][:2] == [begin + DAY_S, begin]
    assert asked[-1] + 30 * DAY_S == begin + HOUR_S + 60


def test_a_budget_returns_to_its_period() -> None:
    accounts = BudgetAccounts(durable=False)
    budget = Budget(name="day", who=LimitWho(any=True), usd=1.0, per="day")
    begin = 1_800_000_000.0
    accounts.configure((budget,), begin)
    periods: list[object] = []
    for at in (begin, begin + DAY_S, begin - HOUR_S, begin):
        account = accounts.find("day", "", at)
        assert account is not None
        periods.append(account.period)

    assert periods[0] == periods[3]
    assert periods[1] != periods[0]
