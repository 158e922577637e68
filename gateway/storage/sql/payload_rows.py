"""Logged payloads in the database, within bounds of bytes per day for each key and for all.

Every addition updates the day's total first, then its keys in order, so that additions of several
processes cannot deadlock, and none exceeds a bound.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Final, Literal

import msgspec
from msgspec import Struct
from msgspec.structs import astuple

from strowger_gateway.gateway.storage.sql.database import Database, Session

DAY_S: Final = 86_400
OVERHEAD: Final = 512
"""Bytes that a row counts for in addition to its record."""

Reason = Literal["", "day", "key", "disk"]
"""Why a row was not stored: the bound of all keys, that of its own, or the rest of the disk.

"": it was stored.
"""

_BATCH_ROWS: Final = 1_000


class PayloadEntry(Struct, frozen=True, kw_only=True):
    """A stored payload without its bodies; the fields are the columns, in order.

    time: the end of the request, Unix seconds. size: bytes of the record.
    """

    request_id: str
    time: float
    key: str
    team: str
    model: str
    status: int
    error: str
    size: int


class StoredPayload(PayloadEntry, frozen=True, kw_only=True):
    """record: JSON, see gateway/observability/payloads/record.py."""

    record: str


class PayloadQuery(Struct, frozen=True, kw_only=True):
    """before: Unix seconds, earlier ones only; `None`: all. key, model: "" for all."""

    before: float | None = None
    key: str = ""
    model: str = ""
    limit: int = 50


_COLUMNS: Final = "request_id, time, key, team, model, status, error, size"
_INSERT: Final = (
    f"INSERT INTO payloads ({_COLUMNS}, record) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)"
    " ON CONFLICT (request_id) DO NOTHING"
)


class PayloadRows:
    """The payloads in one database. Every method raises StoreUnavailable."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def add(
        self, rows: Sequence[StoredPayload], now: float, *, most: int, most_of_key: int
    ) -> list[Reason]:
        """Store rows in one transaction; return for each why it was not stored, "" if it was.

        now: Unix seconds; its UTC day is charged. most, most_of_key: bytes per day, of all keys
        and of one. Raises StoreRejected, and stores nothing.
        """
        day = int(now // DAY_S)
        with self._database.writing(alone=False) as session:
            total = _locked(session, "payload_days", ("day",), (day,))
            of_key = {
                key: _locked(session, "payload_key_days", ("day", "key"), (day, key))
                for key in sorted({row.key for row in rows})
            }
            added: defaultdict[str, int] = defaultdict(int)
            reasons: list[Reason] = []
            stored: list[StoredPayload] = []
            for row in rows:
                size = row.size + OVERHEAD
                if of_key[row.key] + added[row.key] + size > most_of_key:
                    reasons.append("key")
                elif total + sum(added.values()) + size > most:
                    reasons.append("day")
                else:
                    added[row.key] += size
                    stored.append(row)
                    reasons.append("")
            _store(session, day, stored, added)
        return reasons

    def is_disk_low(self, size: int, spare: int) -> bool:
        """Return whether so many bytes would leave less than `spare` on the disk.

        Pages that the database can write again do not. Never for a database server.
        """
        room = self._database.room()
        return room is not None and room[0] - spare < size and room[1] < size

    def find(self, request_id: str) -> StoredPayload | None:
        with self._database.reading() as session:
            found = session.rows(
                tuple[str, float, str, str, str, int, str, int, str],
                f"SELECT {_COLUMNS}, record FROM payloads WHERE request_id = ?",
                request_id,
            )
        names = StoredPayload.__struct_fields__
        fields = [dict(zip(names, row, strict=True)) for row in found]
        return msgspec.convert(fields[0], StoredPayload) if fields else None

    def page(self, query: PayloadQuery) -> list[PayloadEntry]:
        """Return the last ones that match, the newest first."""
        which = ["time < ?"]
        values: list[str | float] = [2.0**62 if query.before is None else query.before]
        for column, value in (("key", query.key), ("model", query.model)):
            if value:
                which.append(f"{column} = ?")
                values.append(value)
        with self._database.reading() as session:
            order = " ORDER BY time DESC, request_id LIMIT ?"
            return _entries(session, " AND ".join(which) + order, *values, query.limit)

    def remove(self, request_id: str) -> PayloadEntry | None:
        """Delete one and return it; `None` if it is not there. Its bytes count for the day."""
        with self._database.writing(alone=False) as session:
            found = _entries(session, "request_id = ?", request_id)
            session.run("DELETE FROM payloads WHERE request_id = ?", request_id)
        return found[0] if found else None


def drop_old_payloads(database: Database, before: float) -> None:
    """Delete what ended before, Unix seconds, a few rows per transaction."""
    deleted = _BATCH_ROWS
    while deleted >= _BATCH_ROWS:
        with database.writing(alone=False) as session:
            deleted = session.run(
                "DELETE FROM payloads WHERE request_id IN"
                " (SELECT request_id FROM payloads WHERE time < ? LIMIT ?)",
                before,
                _BATCH_ROWS,
            )
    with database.writing(alone=False) as session:
        for table in ("payload_days", "payload_key_days"):
            session.run(f"DELETE FROM {table} WHERE day < ?", int(before // DAY_S))


def _entries(session: Session, where: str, *values: str | float) -> list[PayloadEntry]:
    rows = session.rows(
        tuple[str, float, str, str, str, int, str, int],
        f"SELECT {_COLUMNS} FROM payloads WHERE {where}",
        *values,
    )
    names = PayloadEntry.__struct_fields__
    return [msgspec.convert(dict(zip(names, row, strict=True)), PayloadEntry) for row in rows]


def _locked(
    session: Session, table: str, columns: tuple[str, ...], values: tuple[int | str, ...]
) -> int:
    """Return the bytes of a row, 0 for a new one. Other transactions that change it wait."""
    marks = ", ".join("?" * len(values))
    session.run(
        f"INSERT INTO {table} ({', '.join(columns)}, bytes) VALUES ({marks}, 0)"
        f" ON CONFLICT ({', '.join(columns)}) DO UPDATE SET bytes = {table}.bytes + 0",
        *values,
    )
    same = " AND ".join(f"{column} = ?" for column in columns)
    return session.rows(tuple[int], f"SELECT bytes FROM {table} WHERE {same}", *values)[0][0]


def _store(
    session: Session, day: int, rows: Sequence[StoredPayload], added: Mapping[str, int]
) -> None:
    if not rows:
        return
    session.many(_INSERT, [astuple(row) for row in rows])
    session.run("UPDATE payload_days SET bytes = bytes + ? WHERE day = ?", sum(added.values()), day)
    for key in sorted(added):
        session.run(
            "UPDATE payload_key_days SET bytes = bytes + ? WHERE day = ? AND key = ?",
            added[key],
            day,
            key,
        )
