"""A SQLite store whose database can be taken away, as a server's is, and given back."""

from collections.abc import Iterable, Sequence
from pathlib import Path

from strowger_gateway.gateway.storage.sql.database import Connection, Cursor, Insert, Value
from strowger_gateway.gateway.storage.sql.errors import StoreUnavailable
from strowger_gateway.gateway.storage.sql.sqlite import SqliteDriver


class DepartingDriver(SqliteDriver):
    """away: nothing connects, and open connections are lost."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.away = False

    def connect(self) -> "DepartingConnection":  # pyright: ignore[reportIncompatibleMethodOverride]
        if self.away:
            raise StoreUnavailable("taken away by the test")
        return DepartingConnection(super().connect(), self)


class DepartingConnection:
    def __init__(self, inner: Connection, driver: DepartingDriver) -> None:
        self._inner = inner
        self._driver = driver

    @property
    def lost(self) -> bool:
        return self._driver.away

    def execute(self, sql: str, values: Sequence[Value]) -> Cursor:
        return self._inner.execute(sql, values)

    def many(self, sql: str, rows: Iterable[Sequence[Value]]) -> None:
        self._inner.many(sql, rows)

    def insert(self, insert: Insert, rows: Sequence[Sequence[Value]]) -> None:
        self._inner.insert(insert, rows)

    def bulk(self, insert: Insert, rows: Iterable[Sequence[Value]]) -> None:
        self._inner.bulk(insert, rows)

    def interrupt(self) -> None:
        self._inner.interrupt()

    def close(self) -> None:
        self._inner.close()
