"""The number of prepared statements, each of which the database keeps in memory."""

from collections.abc import Iterable, Sequence
from pathlib import Path

from strowger_gateway.gateway.storage.sql.database import Value
from strowger_gateway.gateway.storage.sql.sql import SqlStore
from strowger_gateway.gateway.storage.sql.sqlite import SqliteConnection, SqliteDriver
from tests.gateway.storage.sql.rows import attempt_row, request_row


class Noting(SqliteDriver):
    """statements: every text that was executed."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.statements: set[str] = set()

    def connect(self) -> SqliteConnection:
        return _Connection(super().connect(), self.statements)


class _Connection(SqliteConnection):
    def __init__(self, inner: SqliteConnection, statements: set[str]) -> None:
        self._inner = inner
        self._statements = statements

    def execute(self, sql: str, values: Sequence[Value]):
        self._statements.add(sql)
        return self._inner.execute(sql, values)

    def many(self, sql: str, rows: Iterable[Sequence[Value]]) -> None:
        self._statements.add(sql)
        self._inner.many(sql, rows)

    def close(self) -> None:
        self._inner.close()


def test_imports_of_any_length_have_few_statements_prepared(tmp_path: Path) -> None:
    driver = Noting(tmp_path / "store.db")
    store = SqlStore(driver)
    taken = 0

    for place, length in enumerate(range(1, 160, 3)):
        names = [f"{place}-{number}" for number in range(length)]
        rows = [row for name in names for row in (request_row(name), attempt_row(name))]
        taken += store.import_rows("file", place, place + 1, rows).rows
    store.close()

    assert taken == sum(2 * length for length in range(1, 160, 3))
    assert sum("IN (" in sql for sql in driver.statements) <= 4 * 9
