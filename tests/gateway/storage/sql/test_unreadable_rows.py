"""A row that cannot be read is reported as such, and stops no poll."""

import sqlite3
from pathlib import Path

import pytest

from strowger_gateway.gateway.config.schema.budgets import CountUsd, OwnBudget
from strowger_gateway.gateway.config.schema.limits import OwnLimit
from strowger_gateway.gateway.storage.sql.errors import StoreUnavailable
from strowger_gateway.gateway.storage.sql.key_rows import IssuedKey
from strowger_gateway.gateway.storage.sql.sql import SqlStore
from strowger_gateway.gateway.storage.sql.sqlite import SqliteDriver


@pytest.mark.parametrize(
    "shares", ["nonsense", "[" * 100_000, '{"control": "much"}'], ids=["text", "deep", "typed"]
)
def test_an_unreadable_row_is_an_unreachable_store_with_the_reason(
    shares: str, tmp_path: Path
) -> None:
    store = SqlStore(SqliteDriver(tmp_path / "strowger.db"))
    store.prepare()
    with sqlite3.connect(tmp_path / "strowger.db") as other:
        epoch = ("x", 1, "f", shares, 1.0)
        sql = "INSERT INTO experiment_epochs (experiment, number, fingerprint, shares, began)"
        other.execute(f"{sql} VALUES (?, ?, ?, ?, ?)", epoch)
    other.close()

    with pytest.raises(StoreUnavailable, match="a row cannot be read by this version"):
        store.epochs("x")
    assert store.pauses() == {}
    store.close()


def test_an_issued_key_that_cannot_be_read_stops_no_other(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    store = SqlStore(SqliteDriver(tmp_path / "strowger.db"))
    store.prepare()
    for name in ("ci", "of-a-newer-version"):
        store.issued_keys.add(IssuedKey(name=name, limits=(OwnLimit(requests=5),)))
    with sqlite3.connect(tmp_path / "strowger.db") as other:
        other.execute(
            "UPDATE issued_keys SET limits = replace(limits, ':5', ':5,\"burst\":9')"
            " WHERE name = 'of-a-newer-version'"
        )
    other.close()

    assert [one.name for one in store.issued_keys.current().keys] == ["ci"]
    assert "issued key of-a-newer-version is refused" in caplog.text
    with pytest.raises(StoreUnavailable, match=r"issued key 'of-a-newer-version': .*`burst`"):
        store.issued_keys.all()
    store.close()


def test_an_issued_key_keeps_limits_of_an_earlier_version_that_are_too_large_now(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    store = SqlStore(SqliteDriver(tmp_path / "strowger.db"))
    store.prepare()
    limit, budget = OwnLimit(requests=5, wait_s=5), OwnBudget(tokens=5)
    count = OwnBudget(usd=7, unknown_price=CountUsd(count_usd=5))
    store.issued_keys.add(IssuedKey(name="ci", limits=(limit,), budgets=(budget, count)))
    with sqlite3.connect(tmp_path / "strowger.db") as other:
        other.execute(
            "UPDATE issued_keys SET limits = replace(limits, ':5', ':5000000000000000000'),"
            " budgets = replace(budgets, '\":5', '\":5000000000000000000')"
        )
    other.close()

    for keys in (store.issued_keys.current().keys, store.issued_keys.all()):
        assert keys[0].limits == (OwnLimit(requests=10**12, wait_s=86_400),)
        assert keys[0].budgets == (
            OwnBudget(tokens=10**15),
            OwnBudget(usd=7, unknown_price=CountUsd(count_usd=1e6)),
        )
    assert not caplog.text
    store.close()
