"""Holds in the store: kept until they end, and forgotten with their backend, in both databases."""

from collections.abc import Generator
from pathlib import Path

import pytest

from strowger_gateway.gateway.routing.backend_holds.hold_rows import (
    FORGET_S,
    end_hold,
    end_over,
    note_configured,
    put_hold,
    read_holds,
)
from strowger_gateway.gateway.routing.resilience.backend_hold import BackendHold
from strowger_gateway.gateway.storage.sql.open import open_store
from strowger_gateway.gateway.storage.sql.sql import SqlStore
from strowger_gateway.schemas.secret import Secret
from tests.stand_ins.postgres import Postgres


@pytest.fixture(params=["sqlite", "postgresql"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Generator[SqlStore]:
    url = f"sqlite:///{tmp_path / 'store.db'}"
    if request.param == "postgresql":
        server: Postgres = request.getfixturevalue("postgres")
        url = server.empty_database()
    found = open_store(Secret(url))
    yield found
    found.close()


def test_a_hold_is_kept_replaced_and_ended(store: SqlStore) -> None:
    first = BackendHold(name="p", state="draining", reason="why", by="ann", since=10.0, until=99.5)
    second = BackendHold(name="p", state="disabled", reason="", by="bob", since=20.0)

    assert put_hold(store.database, first) is None
    assert read_holds(store.database) == (first,)
    assert put_hold(store.database, second) == first
    assert read_holds(store.database) == (second,)
    assert end_hold(store.database, "p") == second
    assert end_hold(store.database, "p") is None
    assert read_holds(store.database) == ()


def test_of_several_gateways_one_ends_a_hold_whose_time_is_over(store: SqlStore) -> None:
    over = BackendHold(name="p/m", state="draining", since=10.0, until=50.0)
    lasting = BackendHold(name="q", state="disabled", since=10.0)
    for one in (over, lasting):
        put_hold(store.database, one)

    assert end_over(store.database, 49.0) == []
    assert [end_over(store.database, 50.0) for _ in range(2)] == [[over], []]
    assert read_holds(store.database) == (lasting,)


def test_a_hold_is_forgotten_an_hour_after_the_last_gateway_had_its_backend(
    store: SqlStore,
) -> None:
    gone = BackendHold(name="old/m", state="disabled", since=0.0)
    put_hold(store.database, gone)

    assert note_configured(store.database, [], FORGET_S - 1) == []
    # One gateway of two has it still, as while a configuration is rolled out.
    assert note_configured(store.database, ["old/m"], FORGET_S) == []
    assert note_configured(store.database, [], 2 * FORGET_S) == []
    assert [note_configured(store.database, [], 2 * FORGET_S + 1) for _ in range(2)] == [[gone], []]
    assert read_holds(store.database) == ()


def test_a_gateway_that_starts_after_a_weekend_still_knows_what_it_drains(store: SqlStore) -> None:
    hold = BackendHold(name="p", state="draining", since=0.0)
    put_hold(store.database, hold)

    assert note_configured(store.database, ["p"], 100 * FORGET_S) == []
    assert read_holds(store.database) == (hold,)
