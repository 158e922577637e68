"""PostgreSQL by psycopg 3. https://www.psycopg.org/psycopg3/docs/"""

from collections.abc import Iterable, Sequence
from typing import LiteralString, cast

import psycopg
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from gateway.store.database import Value
from gateway.store.errors import StoreAway
from schemas.errors import InvalidConfig

_WRITING = 7_287_483_001
"""Our advisory lock: whoever writes holds it, on any machine."""


class PostgresDriver:
    """Raises InvalidConfig for an address that cannot be one.

    A dead server is noticed after seconds, and no statement takes longer than a minute; an address
    with a `connect_timeout` or keep-alive settings of its own keeps them.
    """

    text = 'TEXT COLLATE "C"'
    begin_read: tuple[str, ...] = ("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY",)
    begin_write: tuple[str, ...] = ("BEGIN", f"SELECT pg_advisory_xact_lock({_WRITING})")
    errors: tuple[type[Exception], ...] = (psycopg.Error, UnicodeEncodeError)
    refusals: tuple[type[Exception], ...] = (
        psycopg.DataError,
        psycopg.IntegrityError,
        UnicodeEncodeError,
    )

    def __init__(self, url: str) -> None:
        defaults = {
            "connect_timeout": "5",
            "keepalives_idle": "10",
            "keepalives_interval": "5",
            "tcp_user_timeout": "15000",
            "application_name": "strowger",
        }
        try:
            asked = {name: str(value) for name, value in conninfo_to_dict(url).items()}
            self._address = make_conninfo("", **{**defaults, **asked})
        except psycopg.Error as exc:
            raise InvalidConfig((f"store.url: no PostgreSQL address: {exc}",)) from None
        self._where = f"{asked.get('host', 'the local host')}/{asked.get('dbname', '')}"

    def connect(self) -> "PostgresConnection":
        try:
            connection = psycopg.connect(self._address, autocommit=True, prepare_threshold=None)
        except psycopg.Error as exc:
            raise self.away(exc) from exc
        try:
            connection.execute("SET statement_timeout = '60s'")
            connection.execute("SET lock_timeout = '10s'")
        except psycopg.Error as exc:
            connection.close()
            raise self.away(exc) from exc
        return PostgresConnection(connection)

    def away(self, error: Exception) -> StoreAway:
        """psycopg names host and user in its messages, never the password."""
        told = " ".join(str(error).split())
        return StoreAway(f"PostgreSQL at {self._where}: {told}")


class PostgresConnection:
    """psycopg's, with `?` for values; our statements have no other `?` and no `%`."""

    def __init__(self, connection: psycopg.Connection[tuple[object, ...]]) -> None:
        self._connection = connection

    def execute(self, sql: str, values: Sequence[Value]) -> "psycopg.Cursor[tuple[object, ...]]":
        return self._connection.execute(_marked(sql), values or None)

    def many(self, sql: str, rows: Iterable[Sequence[Value]]) -> None:
        with self._connection.cursor() as cursor:
            cursor.executemany(_marked(sql), rows)

    def close(self) -> None:
        self._connection.close()


def _marked(sql: str) -> LiteralString:
    """The statement in psycopg's words. All of them are literals of this package."""
    return cast("LiteralString", sql.replace("?", "%s"))
