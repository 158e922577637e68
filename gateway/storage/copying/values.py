"""Values that one database accepts and the other does not.

SQLite stores any value in any column, and texts with NUL or of bytes that are not UTF-8;
PostgreSQL stores NaN. https://www.sqlite.org/datatype3.html#type_affinity
"""

import math
from collections import Counter
from collections.abc import Sequence
from typing import Final

import msgspec
from msgspec import Struct

from strowger_gateway.gateway.storage.copying.tables import CellColumn, Cells, CopiedTable
from strowger_gateway.gateway.storage.sql.database import Value

_BITS: Final = {"SMALLINT": 15, "INTEGER": 31, "BIGINT": 63}


class LeftOutRow(Struct, frozen=True, kw_only=True):
    """A row that the target cannot hold. row: its values by column, as far as JSON has them."""

    table: str
    column: str
    why: str
    row: dict[str, Value]


class StorableRows:
    """Makes the rows of one run storable. strict: the target is PostgreSQL.

    changed: by table and column, how many texts or numbers had to be changed.
    left_out: by table and key, the rows that cannot be stored.
    """

    def __init__(self, *, strict: bool) -> None:
        self._strict = strict
        self.changed: Counter[tuple[str, str, str]] = Counter()
        self.left_out: dict[tuple[str, Cells], LeftOutRow] = {}

    def forget(self, table: CopiedTable) -> None:
        """Forget a table, which is read again from its first row."""
        for key in [key for key in self.changed if key[0] == table.name]:
            del self.changed[key]
        for row in [row for row in self.left_out if row[0] == table.name]:
            del self.left_out[row]

    def rows(self, table: CopiedTable, rows: Sequence[Cells]) -> list[Cells]:
        """Return the rows that can be stored, with U+FFFD for what texts cannot have."""
        kept: list[Cells] = []
        for row in rows:
            made, fault = self._row(table, row)
            if fault is None:
                kept.append(made)
            else:
                self.left_out[table.name, table.identity_of(row)] = fault
        return kept

    def _row(self, table: CopiedTable, row: Cells) -> tuple[Cells, LeftOutRow | None]:
        made = list(row)
        for place, (column, value) in enumerate(zip(table.columns, row, strict=True)):
            why, to = self._cell(column, value)
            if not why:
                continue
            if to is None and not (value is not None and column.optional and value != value):
                return row, _left_out(table, column, why, row)
            if place in table.identity and table.unique:
                return row, _left_out(table, column, f"{why} in the key", row)
            made[place] = to
            self.changed[table.name, column.name, why] += 1
        return tuple(made), None

    def _cell(self, column: CellColumn, value: Value) -> tuple[str, Value]:
        """Return what is wrong, "" for nothing, and what is stored; `None` if nothing can be."""
        if value is None:
            return ("", None) if column.optional else ("NULL", None)
        if column.type == "TEXT":
            return self._text(value)
        if isinstance(value, float) and math.isnan(value):
            return ("", value) if self._strict else ("NaN", None)
        if not self._strict:
            return "", value
        if isinstance(value, bool) or not isinstance(value, int | float):
            return "it is not a number", None
        if column.type == "DOUBLE PRECISION":
            return "", value
        if not isinstance(value, int):
            return "it is a fraction instead of an integer", None
        bits = _BITS[column.type]
        if not -(2**bits) <= value < 2**bits:
            return f"the integer has more than {bits + 1} bits", None
        return "", value

    def _text(self, value: Value) -> tuple[str, Value]:
        if not isinstance(value, str):
            return ("it is not a text", None) if self._strict else ("", value)
        try:
            value.encode()
        except UnicodeEncodeError:
            made = str(valid(value))
            return "bytes that are not UTF-8", made.replace("\0", "\ufffd")
        if self._strict and "\0" in value:
            return "NUL", value.replace("\0", "\ufffd")
        return "", value


def _left_out(table: CopiedTable, column: CellColumn, why: str, row: Cells) -> LeftOutRow:
    shown = dict(zip(table.names, map(valid, row), strict=True))
    return LeftOutRow(table=table.name, column=column.name, why=why, row=shown)


def valid(value: Value) -> Value:
    """Return a text with U+FFFD for bytes that are not UTF-8, and other values as they are."""
    if isinstance(value, str) and not value.isascii():
        return value.encode(errors="surrogateescape").decode(errors="replace")
    return value


_packed = msgspec.msgpack.Encoder()


def packed(rows: Sequence[Cells]) -> bytes:
    """Return rows as bytes that are equal if the rows are; NaN is equal to itself.

    Raises UnicodeEncodeError for texts that are not Unicode.
    """
    return _packed.encode(rows)


def same(one: Sequence[Cells], other: Sequence[Cells]) -> bool:
    """Return whether rows have equal values, and numbers of the same type."""
    if list(one) == list(other):
        return True
    if len(one) != len(other):
        return False
    try:
        return packed(one) == packed(other)
    except UnicodeEncodeError:
        return False
