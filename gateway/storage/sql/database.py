"""Transactions on either database in one dialect of SQL; the differences are in the drivers.

Statements use `?` for a value. Write transactions are serialised in PostgreSQL as in SQLite: what
one has read stays true until it commits, and two of them cannot deadlock.
"""

from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import contextmanager
from queue import Empty, LifoQueue
from threading import Lock
from typing import Protocol, TypeVar

import msgspec
from msgspec import Struct

from strowger_gateway.gateway.storage.sql.errors import StoreRejected, StoreUnavailable
from strowger_gateway.schemas.errors import InvalidConfig

Value = str | int | float | None
_T = TypeVar("_T")


class Insert(Struct, frozen=True, kw_only=True):
    """An INSERT of rows into a table, with its columns in order.

    otherwise: the ON CONFLICT clause for rows whose key exists; without it they are rejected. Two
    rows with the same key in one insert are only allowed if the clause is DO NOTHING.
    """

    table: str
    columns: tuple[str, ...]
    otherwise: str = ""


_MAX_NAMES = 512
"""Maximum number of names in one `IN`; a power of two."""


def pieces(values: Sequence[_T], most: int = _MAX_NAMES) -> Iterable[Sequence[_T]]:
    """Split values into pieces, each padded to a power of two with its last value.

    sqlite3 caches 128 prepared statements, and one with several hundred names takes up to 100 KB: a
    statement for each possible length would take 9 MB.
    """
    for begin in range(0, len(values), most):
        piece = list(values[begin : begin + most])
        size = 1 << (len(piece) - 1).bit_length()
        yield piece + piece[-1:] * (size - len(piece))


def listed(columns: Iterable[str]) -> str:
    """Return columns for a statement, in quotes: an unquoted `user` is PostgreSQL's own."""
    return ", ".join([f'"{column}"' for column in columns])


def marks(values: Sequence[object]) -> str:
    """Return a `?` for each value, for an `IN`."""
    return ", ".join("?" * len(values))


class Cursor(Protocol):
    """The common part of DB-API cursors. https://peps.python.org/pep-0249/"""

    @property
    def rowcount(self) -> int: ...

    def fetchall(self) -> Sequence[object]: ...


class Connection(Protocol):
    """One connection. Raises the driver's own errors."""

    @property
    def lost(self) -> bool:
        """True if the database has closed it, as far as can be seen without a round trip."""
        ...

    def execute(self, sql: str, values: Sequence[Value]) -> Cursor: ...

    def many(self, sql: str, rows: Iterable[Sequence[Value]]) -> None: ...

    def insert(self, insert: Insert, rows: Sequence[Sequence[Value]]) -> None: ...

    def bulk(self, insert: Insert, rows: Iterable[Sequence[Value]]) -> None:
        """Insert new rows with their values exactly as they are, as fast as possible."""
        ...

    def interrupt(self) -> None:
        """Make a call that another thread has in progress fail."""
        ...

    def close(self) -> None: ...


class Driver(Protocol):
    """A kind of database at one address.

    text:   the type of texts that sort by code point.
    where:  names the database in messages, without secrets.
    begin_read, begin_write: statements; the latter waits until no other process writes.
    begin_change: as begin_write, but where rows are locked, transactions of this kind do not wait
                  for others that change other rows.
    errors: everything its connections raise. rejections: those for which a retry never helps.
    reusable: a query for the bytes within its files that it can write again; "" if it has none.
    fence:  a query for the mark of the tables, which then stays true until the transaction ends.
    closing: a statement that waits until no transaction holds a fence, and admits no other.
    """

    text: str
    where: str
    begin_read: tuple[str, ...]
    begin_write: tuple[str, ...]
    begin_change: tuple[str, ...]
    errors: tuple[type[Exception], ...]
    rejections: tuple[type[Exception], ...]
    reusable: str
    fence: str
    closing: str

    def connect(self) -> Connection:
        """Raises StoreUnavailable."""
        ...

    def free_bytes(self) -> int | None:
        """Return what its disk has left; `None` if that is not known here."""
        ...

    def unavailable(self, error: Exception) -> Exception:
        """Return a StoreUnavailable for one of `errors`, without secrets in its message."""
        ...


class Session:
    """One transaction. wrote: `run` has changed rows."""

    def __init__(self, connection: Connection, rejections: tuple[type[Exception], ...]) -> None:
        self._connection = connection
        self._rejections = rejections
        self.wrote = False

    def run(self, sql: str, *values: Value) -> int:
        """Execute a statement; return the number of changed rows."""
        changed = self._connection.execute(sql, values).rowcount
        self.wrote = self.wrote or changed > 0
        return changed

    def many(self, sql: str, rows: Iterable[Sequence[Value]]) -> None:
        """Execute one statement for each row of values."""
        self._connection.many(sql, rows)

    def insert(self, insert: Insert, rows: Sequence[Sequence[Value]]) -> None:
        """Insert all rows in the fastest way of this database."""
        if rows:
            self._connection.insert(insert, rows)

    def bulk(self, insert: Insert, rows: Iterable[Sequence[Value]]) -> None:
        """Insert new rows, such as another database has them. The `otherwise` is not used."""
        self._connection.bulk(insert, rows)

    def rows(self, kind: type[_T], sql: str, *values: Value) -> list[_T]:
        """Return all rows of a query, each as a `kind`, which is a tuple type."""
        found = self._connection.execute(sql, values).fetchall()
        return msgspec.convert(found, list[kind], strict=False)

    @contextmanager
    def savepoint(self) -> Generator[None]:
        """Undo the block if the database rejects it, and raise StoreRejected."""
        self._connection.execute("SAVEPOINT attempt", ())
        try:
            yield
        except self._rejections as exc:
            self._connection.execute("ROLLBACK TO SAVEPOINT attempt", ())
            self._connection.execute("RELEASE SAVEPOINT attempt", ())
            raise StoreRejected(str(exc)) from exc
        self._connection.execute("RELEASE SAVEPOINT attempt", ())


class Database:
    """A pool of connections, opened on demand; usable from any thread.

    After a failed transaction, pooled connections are dropped, and new ones are only kept once a
    write succeeds: a connection that SQLite opens while its disk is read-only can never write.
    """

    def __init__(
        self,
        driver: Driver,
        prepare: Callable[[Session], None],
        fence: Callable[[Session], None] | None = None,
    ) -> None:
        """prepare: run in a write transaction before any other, until it succeeds once.

        fence: run first in every write transaction; it raises StoreUnavailable if none may write.
        """
        self._driver = driver
        self._prepare = prepare
        self._fence = fence
        self._prepared = False
        self._idle: LifoQueue[Connection] = LifoQueue()
        self._in_use: set[Connection] = set()
        self._doubtful = self._closed = False
        self._lock = Lock()

    @contextmanager
    def reading(self) -> Generator[Session]:
        """Raises StoreUnavailable."""
        with self._transaction(self._driver.begin_read) as session:
            yield session

    @contextmanager
    def writing(self, *, alone: bool = True) -> Generator[Session]:
        """Raises StoreUnavailable or StoreRejected; nothing was written then, or it is unknown.

        alone: no other such transaction runs at the same time. Without it, all transactions that
        change the same rows must lock them in the same order.
        """
        driver = self._driver
        with self._transaction(driver.begin_write if alone else driver.begin_change) as session:
            yield session

    def room(self) -> tuple[int, int] | None:
        """Return the free bytes of the disk, and those within the database that it writes first.

        `None` for a database server. Raises StoreUnavailable.
        """
        free = self._driver.free_bytes()
        if free is None:
            return None
        with self.reading() as session:
            ((reusable,),) = session.rows(tuple[int], self._driver.reusable)
        return free, reusable

    def prepare(self) -> None:
        """Run the preparation. Raises StoreUnavailable, and what the preparation raises."""
        if not self._prepared:
            with self._run(self._driver.begin_write) as session:
                self._prepare(session)
            self._prepared = True

    def close(self) -> None:
        """Close without waiting: interrupt other threads' transactions, which rolls them back.

        A transaction that is between two statements goes on, and closes its connection at its end.
        """
        with self._lock:
            self._closed = True
            for connection in self._in_use:
                connection.interrupt()
        self.close_idle()

    @contextmanager
    def _transaction(self, begin: tuple[str, ...]) -> Generator[Session]:
        """Run a transaction. A failed preparation counts as unavailable: requests must go on.

        A database that cannot be written, such as a standby, can still be read.
        """
        try:
            self.prepare()
        except StoreUnavailable as exc:
            if exc.fault != "read_only" or begin != self._driver.begin_read:
                raise
        except InvalidConfig as exc:
            problems = "; ".join(problem.removeprefix("store.url: ") for problem in exc.problems)
            raise StoreUnavailable(problems) from exc
        with self._run(begin) as session:
            if self._fence is not None and begin != self._driver.begin_read:
                self._fence(session)
            yield session

    @contextmanager
    def _run(self, begin: tuple[str, ...]) -> Generator[Session]:
        """Run a transaction; a connection that failed is closed, because its state is unknown."""
        if self._doubtful:
            self.close_idle()
        connection = self._idle_connection() or self._driver.connect()
        kept = False
        with self._lock:
            self._in_use.add(connection)
        try:
            for sql in begin:
                connection.execute(sql, ())
            session = Session(connection, self._driver.rejections)
            yield session
            connection.execute("COMMIT", ())
            self._doubtful = self._doubtful and not session.wrote
            kept = not self._doubtful
        except (msgspec.DecodeError, RecursionError) as exc:
            raise StoreUnavailable(f"a row cannot be read by this version: {exc}") from exc
        except self._driver.rejections as exc:
            raise StoreRejected(str(exc)) from exc
        except self._driver.errors as exc:
            self._prepared = False
            self._doubtful = True
            raise self._driver.unavailable(exc) from exc
        finally:
            with self._lock:
                self._in_use.discard(connection)
                kept = kept and not self._closed
                if kept:
                    self._idle.put(connection)
            if not kept:
                connection.close()

    def close_idle(self) -> None:
        """Close the connections that wait for a transaction; the next one opens another."""
        while (connection := self._idle_connection()) is not None:
            connection.close()

    def _idle_connection(self) -> Connection | None:
        while True:
            try:
                connection = self._idle.get_nowait()
            except Empty:
                return None
            if not connection.lost:
                return connection
            connection.close()
