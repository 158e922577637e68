"""A row that cannot be read is reported as such, and stops no poll."""

import sqlite3
from pathlib import Path

import pytest

from gateway.store.errors import StoreUnavailable
from gateway.store.sql import SqlStore
from gateway.store.sqlite import SqliteDriver


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
