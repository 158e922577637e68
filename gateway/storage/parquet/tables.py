"""What is exported: the tables, their columns and types, and the order in which rows come.

Every import is a transaction with a number, `batch`; imports take turns, so that a number is only
visible once all smaller ones are. So a position is a batch and a key within it, and no row ever
appears before it.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, Literal

from msgspec import Struct

from strowger_gateway.gateway.storage.sql.database import Session, Value, listed
from strowger_gateway.gateway.storage.sql.rows import ATTEMPT_COLUMNS, REQUEST_COLUMNS, TableColumn

Kind = Literal["text", "time", "int", "float", "bool", "json"]


def _exported(columns: Iterable[TableColumn]) -> Mapping[str, Kind]:
    return {column.name: "time" if column.name == "time" else column.kind for column in columns}


REQUESTS: Final = _exported(REQUEST_COLUMNS)
ATTEMPTS: Final = _exported(ATTEMPT_COLUMNS)


class RecordTable(Struct, frozen=True, kw_only=True):
    """columns: with their types, in order."""

    name: str
    columns: Mapping[str, Kind]
    key: tuple[str, ...]

    def place(self, name: str) -> int:
        return list(self.columns).index(name)


TABLES: Final = (
    RecordTable(name="requests", columns=REQUESTS, key=("request_id",)),
    RecordTable(name="attempts", columns=ATTEMPTS, key=("request_id", "number")),
)


class Position(Struct, frozen=True, kw_only=True):
    """After the row with this key in this batch; without a key, before the first row of it."""

    batch: int = 0
    key: tuple[str | int, ...] = ()


class Page(Struct, frozen=True, kw_only=True):
    """rows: with the table's columns. end: the position after them."""

    rows: Sequence[Sequence[Value]]
    end: Position


def newest_batch(session: Session) -> int:
    return session.rows(tuple[int], "SELECT number FROM import_batch")[0][0]


def page(session: Session, table: RecordTable, after: Position, until: Position, most: int) -> Page:
    """Return the next rows after a position, at most so many, up to and including `until`.

    An empty page ends at `until`.
    """
    rows = _rows(session, table, after, until, most)
    return _page(table, rows) if rows else Page(rows=(), end=until)


def _rows(
    session: Session, table: RecordTable, after: Position, until: Position, most: int
) -> list[tuple[object, ...]]:
    """Compare keys within a batch; the indexes have the same columns."""
    names = ("batch", *table.key)
    order, columns = ", ".join(names), listed(table.columns)
    values: list[Value] = [after.batch, *(after.key or _first(table))]
    limits = f"({order}) > ({', '.join('?' * len(names))}) AND batch <= ?"
    values.append(until.batch)
    if until.key:
        limits += f" AND ({order}) <= ({', '.join('?' * len(names))})"
        values += [until.batch, *until.key]
    sql = f"SELECT batch, {columns} FROM {table.name} WHERE {limits} ORDER BY {order} LIMIT {most}"
    return session.rows(tuple[object, ...], sql, *values)


def _first(table: RecordTable) -> tuple[str | int, ...]:
    """Return a key before all others: ids are not empty, and numbers not negative."""
    return tuple("" if table.columns[name] == "text" else -1 for name in table.key)


def _page(table: RecordTable, rows: Sequence[tuple[object, ...]]) -> Page:
    batch, *values = rows[-1]
    key = [values[table.place(name)] for name in table.key]
    return Page(
        rows=[_values(row[1:]) for row in rows],
        end=Position(
            batch=_int(batch), key=tuple(one if isinstance(one, str) else _int(one) for one in key)
        ),
    )


def _values(row: tuple[object, ...]) -> Sequence[Value]:
    return [one if isinstance(one, (str, int, float)) else None for one in row]


def _int(value: object) -> int:
    assert isinstance(value, int)
    return value
