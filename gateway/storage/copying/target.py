"""The database that is written: closed for gateways until it is complete.

How far the copy has come is in it, in the transactions that write the rows, so that a copy goes on
exactly where it was killed.
"""

from collections.abc import Generator, Sequence
from contextlib import contextmanager
from typing import Final

import msgspec
from msgspec import Struct

from strowger_gateway.gateway.audit.event import AuditEvent
from strowger_gateway.gateway.config.schema_store import SQLITE
from strowger_gateway.gateway.storage.copying import pages
from strowger_gateway.gateway.storage.copying.faults import CopyFault
from strowger_gateway.gateway.storage.copying.pages import KeySpan
from strowger_gateway.gateway.storage.copying.tables import Cells, CopiedTable, tables
from strowger_gateway.gateway.storage.copying.values import valid
from strowger_gateway.gateway.storage.sql.audit_rows import append
from strowger_gateway.gateway.storage.sql.database import Database, Session
from strowger_gateway.gateway.storage.sql.open import driver_of
from strowger_gateway.gateway.storage.sql.schema import (
    COPY,
    MIGRATIONS,
    MOVED,
    VERSION,
    digest_of,
    migration,
)
from strowger_gateway.schemas.secret import Secret

_PROGRESS: Final = "store_copy"


class _Progress(Struct, frozen=True, kw_only=True):
    """Of the first pass over one table. last: the key of the last row that was copied."""

    last: list[str | int | float | None] | None = None
    rows: int = 0
    done: bool = False


class CopyTarget:
    """The tables of one database, while they are filled.

    strict: PostgreSQL, whose columns have one type of value each.
    """

    def __init__(self, url: Secret) -> None:
        """Raises InvalidConfig for a malformed address."""
        self._driver = driver_of(url)
        self.where = self._driver.where
        self.strict = not url.reveal().startswith(SQLITE)
        self.database = Database(self._driver, _nothing)

    def complete(self) -> bool:
        """Return whether gateways may use its tables, which have rows."""
        with self.database.writing() as session:
            found = self._mark(session)
            return found == digest_of(MIGRATIONS) and bool(_own_rows(session))

    def begin(self, source: str) -> None:
        """Close the tables for gateways, and create them if there are none.

        source: the name of the database that is copied. Raises CopyFault if the target has rows of
        its own, InvalidConfig for tables that this program does not know, and StoreUnavailable.
        """
        with self.database.writing() as session:
            if self.strict:
                ((encoding,),) = session.rows(tuple[str], "SHOW server_encoding")
                if encoding != "UTF8":
                    why = f"has the encoding {encoding}; create it with ENCODING 'UTF8'"
                    raise CopyFault(f"--to: {self.where} {why}")
            mark = self._mark(session)
            began = mark.partition(COPY)[2]
            if began and began != source:
                why = f"is an unfinished copy of {began}; drop it, or finish that copy first"
                raise CopyFault(f"--to: {self.where} {why}")
            if began:
                return
            returning = mark.endswith(f"{MOVED}{source}")
            if not returning:
                if MOVED not in mark:
                    migration(self._driver)(session)
                self._refuse_own_rows(session, mark)
            text = self._driver.text
            session.run(f"DROP TABLE IF EXISTS {_PROGRESS}")
            session.run(
                f"CREATE TABLE {_PROGRESS} (name {text} PRIMARY KEY, progress {text} NOT NULL)"
            )
            for table in tables():
                begun = _Progress(done=returning or not table.unique)
                session.run(f"INSERT INTO {_PROGRESS} VALUES (?, ?)", table.name, _text(begun))
            whole = f"{digest_of(MIGRATIONS)}{COPY}{source}"
            session.run("UPDATE schema_version SET digest = ?", whole)

    def progress(self, table: CopiedTable) -> tuple[Cells | None, int, bool]:
        """Return the last key that was copied, the number of rows, and whether that is all."""
        with self.database.reading() as session:
            found = _progress(session, table)
        return (None if found.last is None else tuple(found.last)), found.rows, found.done

    def move(self, session: Session, table: CopiedTable, rows: Sequence[Cells], done: bool) -> None:
        """Note that these rows were copied, in the transaction that writes them.

        Raises CopyFault if another process copies to the same place.
        """
        before = _progress(session, table)
        last = before.last if not rows else [*map(valid, table.key_of(rows[-1]))]
        after = _Progress(last=last, rows=before.rows + len(rows), done=done)
        sql = f"UPDATE {_PROGRESS} SET progress = ? WHERE name = ? AND progress = ?"
        if not session.run(sql, _text(after), table.name, _text(before)):
            raise CopyFault(f"--to: another process copies to {self.where}; wait for it")

    def read(self, table: CopiedTable, span: KeySpan, limit: int | None = None) -> list[Cells]:
        with self.database.reading() as session:
            return pages.read(session, table, span, limit)

    def counts(self, which: Sequence[CopiedTable]) -> dict[str, int]:
        with self.database.reading() as session:
            return {table.name: pages.count(session, table) for table in which}

    @contextmanager
    def writing(self) -> Generator[Session]:
        """Write, unless another run has ended the copy: gateways have rows of their own there then.

        Raises CopyFault and StoreUnavailable.
        """
        with self.database.writing() as session:
            if COPY not in self._mark(session):
                why = f"another process has ended the copy to {self.where}"
                raise CopyFault(f"--to: {why}; nothing was written since")
            yield session

    def open(self, event: AuditEvent) -> None:
        """Let gateways use the tables. event: appended to the audit log. Raises as `writing`."""
        with self.writing() as session:
            session.run("UPDATE schema_version SET digest = ?", digest_of(MIGRATIONS))
            session.run(f"DROP TABLE {_PROGRESS}")
            append(session, (event,))

    def close(self) -> None:
        self.database.close()

    def _mark(self, session: Session) -> str:
        """Return the digest of the tables, and what follows it; "" if there are no tables."""
        session.run(
            "CREATE TABLE IF NOT EXISTS schema_version"
            f" (version INTEGER NOT NULL, digest {self._driver.text} NOT NULL)"
        )
        match session.rows(tuple[object, ...], VERSION):
            case [(_, str(mark))]:
                return mark
            case _:
                return ""

    def _refuse_own_rows(self, session: Session, mark: str) -> None:
        if moved := mark.partition(MOVED)[2]:
            raise CopyFault(f"--to: {self.where} has moved to {moved}; name an empty database")
        if own := _own_rows(session):
            raise CopyFault(
                f"--to: {self.where} has rows of its own ({', '.join(own)}); name an empty "
                "database, whose tables the copy creates"
            )


def _nothing(session: Session) -> None:
    """`begin` creates the tables, and says what is wrong with those that are there."""


def _own_rows(session: Session) -> list[str]:
    """Return the tables that are not as new tables are."""
    return [
        table.name
        for table in tables()
        if tuple(pages.read(session, table, KeySpan(), 2)) != table.initial
    ]


def _progress(session: Session, table: CopiedTable) -> _Progress:
    sql = f"SELECT progress FROM {_PROGRESS} WHERE name = ?"
    ((text,),) = session.rows(tuple[str], sql, table.name)
    return msgspec.json.decode(text, type=_Progress)


def _text(progress: _Progress) -> str:
    return msgspec.json.encode(progress).decode()
