"""PostgreSQL through psycopg 3. https://www.psycopg.org/psycopg3/docs/

Nothing outlives a transaction on a connection: no prepared statement, no lock, no setting. So a
pool in transaction mode, such as PgBouncer, may be in between. https://www.pgbouncer.org/features.html
"""

import os
import select
import socket
from collections.abc import Iterable, Sequence
from contextlib import suppress
from time import monotonic
from typing import LiteralString, TypeVar, cast

import msgspec
import psycopg
from psycopg.abc import PQGen
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from strowger_gateway.gateway.config.schema_store import postgres_address
from strowger_gateway.gateway.storage.sql.database import Insert, Value, listed
from strowger_gateway.gateway.storage.sql.errors import StoreUnavailable
from strowger_gateway.schemas.errors import InvalidConfig

_WRITING = 7_287_483_001
"""Our advisory lock; every writer on any machine holds it."""

CONNECT_S, STATEMENT_S = 5, 60
_TIMEOUTS = f"SET LOCAL statement_timeout = '{STATEMENT_S}s'; SET LOCAL lock_timeout = '10s'"
_PORT = "5432"
DOUBT_S = 1.0
"""Silence before a check whether the server hangs, seconds; doubled for each further check."""

_SILENCE_S = STATEMENT_S + 5.0
"""Silence after which the server counts as dead: it should have reported a statement timeout."""

_T = TypeVar("_T")
_json = msgspec.json.encode


class PostgresDriver:
    """A PostgreSQL server. Raises InvalidConfig for a malformed address.

    A dead or hanging server is detected within seconds, and no statement takes longer than a
    minute. `connect_timeout` and keep-alive settings in the address take precedence.
    """

    text = 'TEXT COLLATE "C"'
    begin_read: tuple[str, ...] = (f"BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY; {_TIMEOUTS}",)
    begin_write: tuple[str, ...] = (
        f"BEGIN; {_TIMEOUTS}",
        f"SELECT pg_advisory_xact_lock({_WRITING})",
    )
    begin_change: tuple[str, ...] = (f"BEGIN; {_TIMEOUTS}",)
    errors: tuple[type[Exception], ...] = (psycopg.Error, OverflowError, UnicodeEncodeError)
    rejections: tuple[type[Exception], ...] = (
        psycopg.DataError,
        psycopg.IntegrityError,
        OverflowError,
        UnicodeEncodeError,
    )

    def __init__(self, url: str) -> None:
        defaults = {
            "connect_timeout": str(CONNECT_S),
            "keepalives_idle": "10",
            "keepalives_interval": "5",
            "tcp_user_timeout": "15000",
            "application_name": "strowger",
        }
        try:
            postgres_address(url)
            given = {name: str(value) for name, value in conninfo_to_dict(url).items()}
            self._address = make_conninfo("", **{**defaults, **given})
        except ValueError as exc:
            raise InvalidConfig((f"store.url: {exc}",)) from None
        except psycopg.Error:  # its message may show a piece of the password
            why = "store.url: not a PostgreSQL address; after ?, it has an option that libpq lacks"
            raise InvalidConfig((why,)) from None
        host, name = given.get("host", "the local host"), given.get("dbname", "")
        port = given.get("port", _PORT)
        self.where = f"PostgreSQL at {host}{'' if port == _PORT else f':{port}'}/{name}"

    def connect(self) -> "PostgresConnection":
        try:
            opened = _TimingOutConnection.connect(
                self._address, autocommit=True, prepare_threshold=None
            )
        except psycopg.Error as exc:
            raise self.unavailable(exc) from exc
        opened.address = self._address
        return PostgresConnection(opened)

    def unavailable(self, error: Exception) -> StoreUnavailable:
        """psycopg names host and user in its messages, never the password."""
        message = " ".join(str(error).split())
        failure = StoreUnavailable(f"{self.where}: {message}")
        if isinstance(error, psycopg.errors.ReadOnlySqlTransaction):
            failure.fault = "read_only"
        elif isinstance(error, psycopg.errors.DiskFull):
            failure.fault = "full"
        elif isinstance(error, psycopg.errors.InsufficientPrivilege):
            failure.fault = "denied"
        return failure

    def free_bytes(self) -> None:
        """Nothing is known of the server's disk."""

    reusable = ""
    fence = "SELECT digest FROM schema_version FOR KEY SHARE"
    closing = "LOCK TABLE schema_version IN EXCLUSIVE MODE"
    """https://www.postgresql.org/docs/current/explicit-locking.html#LOCKING-TABLES: it conflicts
    with the table's lock of the fence, and not with reading."""


class _TimingOutConnection(psycopg.Connection[tuple[object, ...]]):
    """psycopg's connection with a timeout: by itself it waits for ever for a hanging server."""

    address = ""

    def wait(self, gen: PQGen[_T], interval: float = 0.1, timeout: float | None = None) -> _T:
        """Raises psycopg.OperationalError if the server hangs."""
        return super().wait(self._with_checks(gen), interval)

    def hang_up(self) -> None:
        """Close the socket, from any thread; a waiting thread gets an error immediately."""
        with suppress(OSError), socket.socket(fileno=os.dup(self.fileno())) as way:
            way.shutdown(socket.SHUT_RDWR)

    def _with_checks(self, gen: PQGen[_T]) -> PQGen[_T]:
        """Drive `gen`; during a long silence, check whether the server accepts connections.

        A statement may take long. While it waits, psycopg passes an empty `ready` per `interval`.
        """
        began, doubt_s = monotonic(), DOUBT_S
        try:
            wanted = next(gen)
            while True:
                ready = yield wanted
                if not ready and monotonic() > began + doubt_s:
                    if monotonic() > began + _SILENCE_S or self._hangs():
                        self.hang_up()
                        raise psycopg.OperationalError("the server does not answer")
                    doubt_s *= 2.0
                wanted = gen.send(ready)
        except StopIteration as end:
            return cast("_T", end.value)

    def _hangs(self) -> bool:
        """True if the server accepts no new connections; a refused login counts as reachable."""
        try:
            psycopg.connect(self.address).close()
        except psycopg.errors.ConnectionTimeout:
            return True
        except psycopg.Error:
            return False
        return False


class PostgresConnection:
    """A psycopg connection with `?` for values; our statements have no other `?` and no `%`."""

    def __init__(self, connection: _TimingOutConnection) -> None:
        self._connection = connection

    @property
    def lost(self) -> bool:
        """True if the server has closed: unrequested data on an idle connection means its end."""
        if self._connection.closed:
            return True
        poll = select.poll()
        poll.register(self._connection.fileno(), select.POLLIN)
        return bool(poll.poll(0))

    def execute(self, sql: str, values: Sequence[Value]) -> "psycopg.Cursor[tuple[object, ...]]":
        return self._connection.execute(_marked(sql), list(map(_storable, values)) or None)

    def many(self, sql: str, rows: Iterable[Sequence[Value]]) -> None:
        with self._connection.cursor() as cursor:
            cursor.executemany(_marked(sql), rows)

    def insert(self, insert: Insert, rows: Sequence[Sequence[Value]]) -> None:
        """Insert all rows as one JSON value, which the server converts to the table's types.

        One statement per row takes the server seven times as long, and us four times. An integer
        beyond 64 bits, which JSON cannot carry here, raises OverflowError.
        """
        names, into = insert.columns, f"{insert.table} ({listed(insert.columns)})"
        values = _json([dict(zip(names, row, strict=True)) for row in rows]).decode()
        given = f"json_populate_recordset(NULL::{insert.table}, ?::json)"
        columns = listed(names)
        self.execute(
            f"INSERT INTO {into} SELECT {columns} FROM {given} {insert.otherwise}", [values]
        )

    def bulk(self, insert: Insert, rows: Iterable[Sequence[Value]]) -> None:
        """https://www.postgresql.org/docs/current/sql-copy.html"""
        into = f"COPY {insert.table} ({listed(insert.columns)}) FROM STDIN"
        with self._connection.cursor() as cursor, cursor.copy(_marked(into)) as copy:
            for row in rows:
                copy.write_row(row)

    def interrupt(self) -> None:
        self._connection.hang_up()

    def close(self) -> None:
        self._connection.close()


def _storable(value: Value) -> Value:
    """Replace NUL, which a client may ask for and PostgreSQL's texts cannot have."""
    return value.replace("\0", "\ufffd") if isinstance(value, str) and "\0" in value else value


def _marked(sql: str) -> LiteralString:
    """Return the statement with psycopg's markers. All statements are literals of this package."""
    return cast("LiteralString", sql.replace("?", "%s"))
