"""Read and change rows of one database in the order of their keys."""

from collections.abc import Sequence
from typing import Final, cast

import msgspec
from msgspec import Struct

from strowger_gateway.gateway.storage.copying.tables import Cells, CopiedTable
from strowger_gateway.gateway.storage.sql.database import Insert, Session, Value, listed

_PAGE_BYTES: Final = 4 * 1024 * 1024
_FEWEST, _FIRST, _MOST = 16, 256, 4_096
_LARGE: Final = 64 * 1024
"""Bytes of a row; of tables with such rows, few are read at a time."""


class KeySpan(Struct, frozen=True, kw_only=True):
    """Rows with a key above `after` and not above `through`; `None`: from the first, to the last.

    since: only rows of imports after this one.
    """

    after: Cells | None = None
    through: Cells | None = None
    since: int | None = None


def by_import(table: CopiedTable) -> CopiedTable:
    """Return a table that `grows`, sorted by the imports."""
    batch = table.names.index("batch")
    return msgspec.structs.replace(table, key=(batch, *table.key))


def read(
    session: Session, table: CopiedTable, span: KeySpan, limit: int | None = None
) -> list[Cells]:
    """Return rows in the order of their key, and of all other columns if that is not unique."""
    where, values = _where(table, span)
    order = "" if not table.key else f" ORDER BY {_columns(table)}"
    if table.key and not table.unique:
        order += f", {listed(table.names)}"
    most = "" if limit is None else f" LIMIT {limit}"
    sql = f"SELECT {listed(table.names)} FROM {table.name}{where}{order}{most}"
    return cast("list[Cells]", session.rows(tuple[object, ...], sql, *values))


def count(session: Session, table: CopiedTable) -> int:
    return session.rows(tuple[int], f"SELECT COUNT(*) FROM {table.name}")[0][0]


def delete(session: Session, table: CopiedTable, span: KeySpan) -> None:
    where, values = _where(table, span)
    session.run(f"DELETE FROM {table.name}{where}", *values)


def delete_keys(session: Session, table: CopiedTable, keys: Sequence[Cells]) -> None:
    if keys:
        same = " AND ".join(f'"{table.names[place]}" = ?' for place in table.key)
        session.many(f"DELETE FROM {table.name} WHERE {same}", keys)


def insert(session: Session, table: CopiedTable, rows: Sequence[Cells]) -> None:
    """Raises StoreRejected, and then no row is there."""
    with session.savepoint():
        session.bulk(Insert(table=table.name, columns=table.names), rows)


class PagePace:
    """How many rows of a table to read at a time, so that a page has about four MiB."""

    def __init__(self) -> None:
        self.rows = _FIRST
        self._most = _MOST

    def note(self, rows: Sequence[Cells]) -> None:
        """Take the sizes of the page that was read."""
        if not rows:
            return
        sizes = [sum([len(cell) for cell in row if isinstance(cell, str)]) for row in rows[::16]]
        if max(sizes) > _LARGE:
            self._most = _FEWEST
        fitting = _PAGE_BYTES * len(sizes) // max(1, sum(sizes))
        self.rows = max(_FEWEST, min(fitting, 2 * self.rows, self._most))


def _columns(table: CopiedTable) -> str:
    return listed([table.names[place] for place in table.key])


def _where(table: CopiedTable, span: KeySpan) -> tuple[str, list[Value]]:
    terms: list[str] = []
    values: list[Value] = []
    for sign, key in ((">", span.after), ("<=", span.through)):
        if key is not None and table.key:
            marks = ", ".join([_mark(cell) for cell in key])
            terms.append(f"({_columns(table)}) {sign} ({marks})")
            values += [_bound(cell) for cell in key]
    if span.since is not None:
        terms.append("batch > ?")
        values.append(span.since)
    return (f" WHERE {' AND '.join(terms)}" if terms else ""), values


def _mark(cell: Value) -> str:
    return "CAST(? AS TEXT)" if _is_odd(cell) else "?"


def _bound(cell: Value) -> Value:
    """Return a bound as the driver takes it. Only keys in SQLite can be bytes that are no text."""
    if isinstance(cell, str) and _is_odd(cell):
        return cast("str", cell.encode(errors="surrogateescape"))
    return cell


def _is_odd(cell: Value) -> bool:
    return (
        isinstance(cell, str)
        and not cell.isascii()
        and any("\ud800" <= one <= "\udfff" for one in cell)
    )
