"""SQLite: one file, several processes. https://www.sqlite.org/wal.html"""

import logging
import os
import sqlite3
import stat
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from threading import Lock

from strowger_gateway.gateway.storage.sql.database import Insert, Value, listed, marks
from strowger_gateway.gateway.storage.sql.errors import StoreFault, StoreUnavailable

_BUSY_S = 10.0
_CACHE_KIB = 512
"""Page cache of each of up to twelve connections, KiB; SQLite's default of 2,000 is not faster."""


_PRIMARY = 0xFF
_FAULTS: Mapping[int, StoreFault] = {
    sqlite3.SQLITE_FULL: "full",
    sqlite3.SQLITE_READONLY: "read_only",
    sqlite3.SQLITE_PERM: "denied",
    sqlite3.SQLITE_AUTH: "denied",
}
"""By the lower byte of https://www.sqlite.org/rescode.html"""

_NO_FILE = ":memory:"
_OTHERS = 0o077
_creating = Lock()
_log = logging.getLogger("strowger.records")


class SqliteDriver:
    """A SQLite file. Commits are on the disk before a spool file is removed: synchronous=FULL."""

    text = "TEXT"
    begin_read: tuple[str, ...] = ("BEGIN",)
    begin_write: tuple[str, ...] = ("BEGIN IMMEDIATE",)
    begin_change: tuple[str, ...] = begin_write
    errors: tuple[type[Exception], ...] = (sqlite3.Error, OverflowError)
    rejections: tuple[type[Exception], ...] = (
        sqlite3.IntegrityError,
        sqlite3.DataError,
        OverflowError,
        UnicodeEncodeError,
    )

    def __init__(self, path: Path, *, lenient: bool = False) -> None:
        """lenient: bytes that are not UTF-8 are read as lone surrogates, as `os.fsdecode` does."""
        self._path = path
        self._lenient = lenient
        self.where = str(path)
        self._private = False

    def connect(self) -> "SqliteConnection":
        self._make_private()
        try:
            connection = sqlite3.connect(
                self._path, timeout=_BUSY_S, isolation_level=None, check_same_thread=False
            )
        except sqlite3.Error as exc:
            raise self.unavailable(exc) from exc
        try:
            connection.execute("PRAGMA journal_mode=WAL")
            connection.execute("PRAGMA synchronous=FULL")
            connection.execute(f"PRAGMA cache_size=-{_CACHE_KIB}")
        except sqlite3.Error as exc:
            connection.close()
            raise self.unavailable(exc) from exc
        if self._lenient:
            connection.text_factory = os.fsdecode
        return SqliteConnection(connection)

    def _make_private(self) -> None:
        """Create the file with mode 600, whatever the umask; -wal and -shm get the same mode.

        An existing file is never opened here: closing it would drop SQLite's locks on it.
        https://www.sqlite.org/howtocorrupt.html#_posix_advisory_locks_canceled_by_a_separate_thread_doing_close_
        """
        with _creating:
            if self._private or str(self._path) == _NO_FILE:
                return
            self._private = True
            try:
                os.close(os.open(self._path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
            except FileExistsError:
                self._tighten()
            except OSError:
                self._private = False  # connecting raises SQLite's own error

    def _tighten(self) -> None:
        for ending in ("", "-wal", "-shm"):
            file = Path(f"{self._path}{ending}")
            try:
                found = file.stat().st_mode
                mode = stat.S_IMODE(found)
                if stat.S_ISREG(found) and mode & _OTHERS:
                    file.chmod(mode & ~_OTHERS)
                    message = "%s was readable by other users (mode %o); changed to 600"
                    _log.warning(message, file, mode)
            except FileNotFoundError:
                continue
            except OSError as exc:
                message = "%s is readable by other users, and its mode cannot be changed: %s"
                _log.warning(message, file, exc)

    def unavailable(self, error: Exception) -> StoreUnavailable:
        failure = StoreUnavailable(f"{self._path}: {error}")
        if isinstance(error, sqlite3.Error):
            code = getattr(error, "sqlite_errorcode", 0) & _PRIMARY  # not set by the module itself
            failure.fault = _FAULTS.get(code, failure.fault)
        return failure

    def free_bytes(self) -> int | None:
        """Return what the disk has left for this user."""
        try:
            found = os.statvfs(self._path.parent)
        except OSError:
            return None
        return found.f_bavail * found.f_frsize

    reusable = "SELECT freelist_count * page_size FROM pragma_freelist_count, pragma_page_size"
    fence = "SELECT digest FROM schema_version"
    closing = fence  # `begin_write` has excluded all others


class SqliteConnection:
    """A sqlite3 connection in autocommit mode; transactions are explicit statements."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    @property
    def lost(self) -> bool:
        return False

    def execute(self, sql: str, values: Sequence[Value]) -> sqlite3.Cursor:
        return self._connection.execute(sql, values)

    def many(self, sql: str, rows: Iterable[Sequence[Value]]) -> None:
        self._connection.executemany(sql, rows)

    def insert(self, insert: Insert, rows: Sequence[Sequence[Value]]) -> None:
        """Insert row by row: several rows per statement are not faster in SQLite."""
        columns = listed(insert.columns)
        into = f"INSERT INTO {insert.table} ({columns}) VALUES ({marks(insert.columns)})"
        self.many(f"{into} {insert.otherwise}", rows)

    def bulk(self, insert: Insert, rows: Iterable[Sequence[Value]]) -> None:
        columns = listed(insert.columns)
        self.many(f"INSERT INTO {insert.table} ({columns}) VALUES ({marks(insert.columns)})", rows)

    def interrupt(self) -> None:
        self._connection.interrupt()

    def close(self) -> None:
        self._connection.close()
