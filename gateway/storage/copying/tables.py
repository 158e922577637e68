"""The tables to copy, derived from the statements that create them: a new table is copied, too."""

import re
import sqlite3
from contextlib import closing
from functools import cache
from typing import Final, Literal

from msgspec import Struct

from strowger_gateway.gateway.storage.sql.database import Value
from strowger_gateway.gateway.storage.sql.schema import MIGRATIONS

CellType = Literal["TEXT", "BIGINT", "INTEGER", "SMALLINT", "DOUBLE PRECISION"]
Cells = tuple[Value, ...]
"""A row, or the values of its key."""

_VERSIONS: Final = "schema_version"
_NAME: Final = re.compile(r"CREATE TABLE (\w+)")


class CellColumn(Struct, frozen=True, kw_only=True):
    """A column. optional: it may be NULL."""

    name: str
    type: CellType
    optional: bool


class CopiedTable(Struct, frozen=True, kw_only=True):
    """A table and the order in which it is copied.

    key:     the places of the columns that sort it: its primary key, or else its first index; ()
             for a table of one row. unique: no two rows have the same key.
    identity: the places of the columns that no two rows have in common.
    grows:   its rows have the number of the import that wrote them, and never change after it.
    initial: the rows of new tables.
    """

    name: str
    columns: tuple[CellColumn, ...]
    key: tuple[int, ...]
    unique: bool
    identity: tuple[int, ...]
    grows: bool
    initial: tuple[Cells, ...]

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(column.name for column in self.columns)

    def key_of(self, row: Cells) -> Cells:
        return tuple([row[place] for place in self.key])

    def identity_of(self, row: Cells) -> Cells:
        return tuple([row[place] for place in self.identity])


@cache
def tables() -> tuple[CopiedTable, ...]:
    """Return all tables, in the order of their creation."""
    with closing(sqlite3.connect(":memory:")) as made:
        statements = [one.format(text="TEXT") for step in MIGRATIONS for one in step]
        for statement in statements:
            made.execute(statement)
        names = [found[1] for one in statements if (found := _NAME.match(one))]
        return tuple(_table(made, name) for name in names if name != _VERSIONS)


def _table(made: sqlite3.Connection, name: str) -> CopiedTable:
    found = made.execute('SELECT name, type, "notnull", pk FROM pragma_table_info(?)', (name,))
    rows: list[tuple[str, CellType, int, int]] = found.fetchall()
    columns = tuple(
        CellColumn(name=column, type=kind, optional=not (needed or rank))
        for column, kind, needed, rank in rows
    )
    primary = sorted((rank, place) for place, (_, _, _, rank) in enumerate(rows) if rank)
    key = tuple(place for _, place in primary)
    indexes = made.execute(
        "SELECT name FROM pragma_index_list(?) WHERE origin = 'c' ORDER BY seq DESC", (name,)
    )
    indexed = [index for (index,) in indexes.fetchall()]
    if not key and indexed:
        of_index = made.execute("SELECT cid FROM pragma_index_info(?) ORDER BY seqno", indexed[:1])
        key = tuple(place for (place,) in of_index.fetchall())
    return CopiedTable(
        name=name,
        columns=columns,
        key=key,
        unique=bool(primary),
        identity=key if primary else tuple(range(len(columns))),
        grows=f"{name}_batch" in indexed,
        initial=tuple(made.execute(f"SELECT * FROM {name}").fetchall()),
    )
