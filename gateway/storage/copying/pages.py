"""Read and change rows of one database in the order of their keys."""

from collections.abc import Sequence
from typing import Final, cast

import msgspec
from msgspec import Struct

from strowger_gateway.gateway.storage.copying.tables import Cells, CopiedTable
from strowger_gateway.gateway.storage.sql.database import Insert, Session, Value, listed

_PAGE_BYTES: Final = 4 * 1024 * 1024
_MOST: Final = 4_096


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


def fitting(session: Session, table: CopiedTable, span: KeySpan, octets: str) -> list[int]:
    """Return the lengths of the next pages, each of at least one row and about four MiB at most.

    octets: an expression for the bytes of a text. The database adds them up, because a single row
    may have a whole answer, and memory has to hold what is read.
    """
    texts = [one.name for one in table.columns if one.type == "TEXT"]
    if not texts:
        return [_MOST]
    size = " + ".join(f"COALESCE({octets.format(listed([name]))}, 0)" for name in texts)
    where, values = _where(table, span)
    order = f" ORDER BY {_columns(table)}" if table.key else ""
    sql = f"SELECT {size} FROM {table.name}{where}{order} LIMIT {_MOST}"
    sizes = session.rows(tuple[int], sql, *values)
    found, rows, sum_of = list[int](), 0, 0
    for (bytes_of_row,) in sizes:
        if rows and sum_of + bytes_of_row > _PAGE_BYTES:
            found.append(rows)
            rows = sum_of = 0
        rows, sum_of = rows + 1, sum_of + bytes_of_row
    return [*found, rows if len(sizes) == _MOST else _MOST]


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
