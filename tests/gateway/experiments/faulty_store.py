"""A SQLite driver that a test can make fail or hang."""

import sqlite3
from collections.abc import Iterable, Sequence
from pathlib import Path
from threading import Event

from strowger_gateway.gateway.storage.sql.database import Value
from strowger_gateway.gateway.storage.sql.sqlite import SqliteConnection, SqliteDriver


class FaultyDriver(SqliteDriver):
    """failing: every statement fails. silent: statements hang until the store is closed.

    asked: set once a statement waits.
    """

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.failing = self.silent = False
        self.asked, self.over = Event(), Event()

    def connect(self) -> "FaultyConnection":
        return FaultyConnection(super().connect(), self)

    def check(self) -> None:
        """Raises sqlite3.OperationalError, at once or in the end."""
        if self.silent:
            self.asked.set()
            self.over.wait()
        if self.silent or self.failing:
            raise sqlite3.OperationalError("the database does not answer")


class FaultyConnection(SqliteConnection):
    def __init__(self, connection: SqliteConnection, driver: FaultyDriver) -> None:
        self._of = connection
        self._driver = driver

    def execute(self, sql: str, values: Sequence[Value]) -> sqlite3.Cursor:
        self._driver.check()
        return self._of.execute(sql, values)

    def many(self, sql: str, rows: Iterable[Sequence[Value]]) -> None:
        self._driver.check()
        self._of.many(sql, rows)

    def interrupt(self) -> None:
        self._driver.over.set()

    def close(self) -> None:
        self._of.close()
