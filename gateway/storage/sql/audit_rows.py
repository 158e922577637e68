"""The audit log in the database: one chain of rows, which only grows at its end.

The head is a row of its own: its update is the first statement of every transaction that appends,
so that two of them can never append to the same row.
"""

from collections.abc import Iterator, Sequence
from typing import Final

import msgspec
from msgspec import Struct

from strowger_gateway.gateway.audit.chain import NO_HASH, AuditRow, ChainHead, chained
from strowger_gateway.gateway.audit.event import AuditEvent
from strowger_gateway.gateway.audit.verification import PRUNE, THROUGH, THROUGH_HASH
from strowger_gateway.gateway.storage.sql.database import Database, Session

_COLUMNS: Final = ", ".join(AuditRow.__struct_fields__)
_MARKS: Final = ", ".join("?" * len(AuditRow.__struct_fields__))
PAGE: Final = 1_000
"""Rows that are read at a time."""


class AuditQuery(Struct, frozen=True, kw_only=True):
    """Which rows to read.

    since:  RFC 3339 as in `AuditRow.time`. actor: the name of an actor, a
            person's without the id in parentheses too, or a kind.
    action: its name, or a group such as `key`. target: what was changed, exactly.
    before: rows with a lower `seq`.
    """

    since: str = ""
    actor: str = ""
    action: str = ""
    target: str = ""
    before: int | None = None
    limit: int = 100


class _Columns(AuditRow, frozen=True, kw_only=True, array_like=True):
    """A row as the database returns it."""


class AuditRows:
    """The chain in one database. Every method raises StoreUnavailable."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def append(self, events: Sequence[AuditEvent]) -> ChainHead:
        """Append events that are not in the chain yet; return the new head."""
        with self._database.writing() as session:
            return append(session, events)

    def head(self) -> ChainHead:
        """Return the place and hash of the last row that was appended."""
        with self._database.reading() as session:
            return _head(session)

    def page(self, query: AuditQuery) -> Sequence[AuditRow]:
        """Return the last rows that match, the newest first."""
        which, values = ["seq < ?"], list[str | int]([query.before or 2**62])
        if query.since:
            which.append("time >= ?")
            values.append(query.since)
        if query.actor:
            which.append("(actor = ? OR actor_kind = ? OR substr(actor, 1, ?) = ?)")
            person = f"{query.actor} ("
            values += [query.actor, query.actor, len(person), person]
        if query.action:
            which.append("(action = ? OR substr(action, 1, ?) = ?)")
            values += [query.action, len(query.action) + 1, f"{query.action}."]
        if query.target:
            which.append("target = ?")
            values.append(query.target)
        with self._database.reading() as session:
            return session.rows(
                _Columns,
                f"SELECT {_COLUMNS} FROM audit_rows WHERE {' AND '.join(which)}"
                " ORDER BY seq DESC LIMIT ?",
                *values,
                query.limit,
            )

    def after(self, seq: int, limit: int = PAGE) -> Sequence[AuditRow]:
        """Return the rows that follow a place in the chain."""
        with self._database.reading() as session:
            return _after(session, seq, limit)

    def chain(self) -> Iterator[AuditRow | ChainHead]:
        """Yield all rows in order, then the head, all from one snapshot. Exhaust or close it."""
        with self._database.reading() as session:
            head, seq = _last(session, "audit_head"), 0
            while rows := _after(session, seq, PAGE):
                yield from rows
                seq = rows[-1].seq
            yield head or ChainHead(seq=0, hash=NO_HASH)

    def prune(self, before: str, event: AuditEvent) -> int:
        """Remove the oldest rows up to the first that is not older than `before`.

        event: of the row that is appended with them, and names the last one; `facts` are added.
        Returns the number of removed rows; without any, nothing is appended.
        """
        with self._database.writing() as session:
            _lock(session)
            kept = session.rows(
                tuple[int | None], "SELECT MIN(seq) FROM audit_rows WHERE time >= ?", before
            )[0][0]
            end = _head(session).seq + 1 if kept is None else kept
            last = session.rows(
                tuple[int, str],
                "SELECT seq, hash FROM audit_rows WHERE seq < ? ORDER BY seq DESC LIMIT 1",
                end,
            )
            if not last:
                return 0
            through, hash = last[0]
            removed = session.run("DELETE FROM audit_rows WHERE seq <= ?", through)
            facts = {THROUGH: str(through), THROUGH_HASH: hash, "rows": str(removed)}
            append(session, (msgspec.structs.replace(event, action=PRUNE, facts=facts),))
            return removed


def append(session: Session, events: Sequence[AuditEvent]) -> ChainHead:
    """Append events, each once, in a transaction that also changes something else."""
    if not events:
        return _head(session)
    _lock(session)
    head = _head(session)
    for event in events:
        if session.rows(tuple[int], "SELECT 1 FROM audit_rows WHERE id = ?", event.id):
            continue
        row = chained(event, head)
        session.run(
            f"INSERT INTO audit_rows ({_COLUMNS}) VALUES ({_MARKS})", *msgspec.structs.astuple(row)
        )
        head = ChainHead(seq=row.seq, hash=row.hash)
    values = (head.seq, head.hash)
    if not session.run("UPDATE audit_head SET seq = ?, hash = ?", *values):
        session.run("INSERT INTO audit_head (seq, hash) VALUES (?, ?)", *values)
    return head


def _lock(session: Session) -> None:
    session.run("UPDATE audit_head SET seq = seq")


def _head(session: Session) -> ChainHead:
    """Return the head; if its row was deleted, the last row: the chain must go on."""
    found = _last(session, "audit_head") or _last(session, "audit_rows")
    return found or ChainHead(seq=0, hash=NO_HASH)


def _last(session: Session, table: str) -> ChainHead | None:
    sql = f"SELECT seq, hash FROM {table} ORDER BY seq DESC LIMIT 1"
    for seq, hash in session.rows(tuple[int, str], sql):
        return ChainHead(seq=seq, hash=hash)
    return None


def _after(session: Session, seq: int, limit: int) -> Sequence[AuditRow]:
    return session.rows(
        _Columns,
        f"SELECT {_COLUMNS} FROM audit_rows WHERE seq > ? ORDER BY seq LIMIT ?",
        seq,
        limit,
    )
