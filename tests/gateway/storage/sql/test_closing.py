"""A store that is closed keeps no connection open, whatever its other threads were doing."""

import sqlite3
from pathlib import Path

import pytest

from strowger_gateway.gateway.storage.sql.database import Database
from strowger_gateway.gateway.storage.sql.schema import migration
from strowger_gateway.gateway.storage.sql.sqlite import SqliteConnection, SqliteDriver


class Remembering(SqliteDriver):
    """opened: all connections, in order."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.opened: list[SqliteConnection] = []

    def connect(self) -> SqliteConnection:
        self.opened.append(super().connect())
        return self.opened[-1]


def test_a_transaction_that_outlasts_the_store_closes_its_connection(tmp_path: Path) -> None:
    driver = Remembering(tmp_path / "store.db")
    database = Database(driver, migration(driver))

    with database.writing() as late:
        with database.reading():
            pass
        database.close()
        late.run("INSERT INTO experiment_pauses VALUES (?, ?, ?)", "e", "too slow", 10.0)

    assert len(driver.opened) == 2
    for connection in driver.opened:
        with pytest.raises(sqlite3.ProgrammingError, match="closed"):
            connection.execute("SELECT 1", ())
