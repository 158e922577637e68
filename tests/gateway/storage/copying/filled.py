"""A database with rows in every table, and what a database has."""

import math
from collections.abc import Iterator, Mapping
from hashlib import sha256
from pathlib import Path

from strowger_gateway.gateway.audit.event import AuditEvent
from strowger_gateway.gateway.storage.copying import pages
from strowger_gateway.gateway.storage.copying.pages import KeySpan
from strowger_gateway.gateway.storage.copying.tables import Cells, CopiedTable, tables
from strowger_gateway.gateway.storage.copying.values import packed
from strowger_gateway.gateway.storage.sql.database import Insert, Value
from strowger_gateway.gateway.storage.sql.open import open_store
from strowger_gateway.schemas.secret import Secret

AT_ONCE = 20_000
"""Rows of a transaction: no statement may take longer than a minute."""

AUDITED = ("audit_rows", "audit_head")


def fill(url: Secret, rows: int, of: Mapping[str, int] | None = None) -> None:
    """Put so many rows into every table. of: other numbers, by table."""
    store = open_store(url)
    events = [
        AuditEvent(action="key.create", actor_kind="cli", target=f"é {at}") for at in range(3)
    ]
    store.audit.append(events)
    for table in tables():
        if table.name in AUDITED:
            continue
        if table.initial:
            names = ", ".join(f'"{column.name}" = ?' for column in table.columns)
            with store.database.writing() as session:
                session.run(f"UPDATE {table.name} SET {names}", *next(_rows(table, 1, 7)))
            continue
        insert = Insert(table=table.name, columns=table.names)
        count = (of or {}).get(table.name, rows)
        for first in range(0, count, AT_ONCE):
            with store.database.writing() as session:
                session.bulk(insert, _rows(table, min(AT_ONCE, count - first), first))
    store.close()


def _rows(table: CopiedTable, count: int, first: int = 0) -> Iterator[Cells]:
    for at in range(first, first + count):
        yield tuple([_cell(table, place, at) for place in range(len(table.columns))])


def _cell(table: CopiedTable, place: int, at: int) -> Value:
    column = table.columns[place]
    if column.optional and at % 3 == 1:
        return None
    match column.type:
        case "TEXT":
            return f"{column.name} {at} \N{GREEK SMALL LETTER ALPHA}\N{GRINNING FACE}'\"\\\n"
        case "DOUBLE PRECISION":
            return (0.1 + at, math.inf, -1e-300)[at % 3 if place not in table.key else 0]
        case "BIGINT":
            return at // 50 if column.name == "batch" else 2**62 + at
        case _:
            return at % 2**15


def contents(url: Secret) -> dict[str, list[Cells]]:
    """Return all rows of all tables."""
    store = open_store(url)
    try:
        with store.database.reading() as session:
            return {table.name: pages.read(session, table, KeySpan()) for table in tables()}
    finally:
        store.close()


def digests(url: Secret) -> dict[str, str]:
    """Return a checksum of each table, for tables that are larger than memory should be."""
    store = open_store(url)
    found: dict[str, str] = {}
    for table in tables():
        digest, after, rows = sha256(), None, list[Cells]()
        while after is None or rows:
            with store.database.reading() as session:
                limit = AT_ONCE if table.unique else None
                rows = pages.read(session, table, KeySpan(after=after), limit)
            digest.update(packed(rows))
            if not rows or not table.unique:
                break
            after = table.key_of(rows[-1])
        found[table.name] = digest.hexdigest()
    store.close()
    return found


def sqlite(folder: Path, name: str = "store") -> Secret:
    return Secret(f"sqlite:///{folder / name}.db")
