"""Transactions on either database, in one dialect of SQL: what differs is in its driver.

Statements write `?` for a value. A write transaction is the only one at its time, in PostgreSQL as
in SQLite: what it read stays true until it commits, and two of them never wait for each other in a
circle.
"""

from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import contextmanager
from queue import Empty, LifoQueue
from threading import Lock
from typing import Protocol, TypeVar

import msgspec
from msgspec import Struct

from gateway.store.errors import StoreRejected, StoreUnavailable
from schemas.errors import InvalidConfig

Value = str | int | float | None
_T = TypeVar("_T")


class Insert(Struct, frozen=True, kw_only=True):
    """Rows for a table, whose columns these are in their order.

    otherwise: what is done about a row whose key is there, and refused without it. It says nothing
    of two rows with one key that come together, unless what it does is nothing.
    """

    table: str
    columns: tuple[str, ...]
    otherwise: str = ""


class Cursor(Protocol):
    """What DB-API cursors have in common. https://peps.python.org/pep-0249/"""

    @property
    def rowcount(self) -> int: ...

    def fetchall(self) -> Sequence[object]: ...


class Connection(Protocol):
    """One connection. Raises the driver's own errors."""

    @property
    def lost(self) -> bool:
        """Whether the database has let go of it, as far as can be told without asking."""
        ...

    def execute(self, sql: str, values: Sequence[Value]) -> Cursor: ...

    def many(self, sql: str, rows: Iterable[Sequence[Value]]) -> None: ...

    def insert(self, insert: Insert, rows: Sequence[Sequence[Value]]) -> None: ...

    def interrupt(self) -> None:
        """What another thread does with it now fails, if it takes any time."""
        ...

    def close(self) -> None: ...


class Driver(Protocol):
    """A kind of database at one address.

    text:   the type of texts that sort by code point.
    begin_read, begin_write: statements; the latter waits until no other process writes.
    errors: all that its connections raise. refusals: those of them that will never pass.
    """

    text: str
    begin_read: tuple[str, ...]
    begin_write: tuple[str, ...]
    errors: tuple[type[Exception], ...]
    refusals: tuple[type[Exception], ...]

    def connect(self) -> Connection:
        """Raises StoreUnavailable."""
        ...

    def unavailable(self, error: Exception) -> Exception:
        """A StoreUnavailable for one of `errors`, without anything secret in its words."""
        ...


class Session:
    """One transaction. wrote: `run` has changed rows."""

    def __init__(self, connection: Connection, refusals: tuple[type[Exception], ...]) -> None:
        self._connection = connection
        self._refusals = refusals
        self.wrote = False

    def run(self, sql: str, *values: Value) -> int:
        """The number of rows that changed."""
        changed = self._connection.execute(sql, values).rowcount
        self.wrote = self.wrote or changed > 0
        return changed

    def many(self, sql: str, rows: Iterable[Sequence[Value]]) -> None:
        """One statement for each of many rows of values."""
        self._connection.many(sql, rows)

    def insert(self, insert: Insert, rows: Sequence[Sequence[Value]]) -> None:
        """All of them, as quickly as this database takes them."""
        if rows:
            self._connection.insert(insert, rows)

    def rows(self, kind: type[_T], sql: str, *values: Value) -> list[_T]:
        """All rows of a query, each as a `kind`, which is a tuple type."""
        found = self._connection.execute(sql, values).fetchall()
        return msgspec.convert(found, list[kind], strict=False)

    @contextmanager
    def savepoint(self) -> Generator[None]:
        """What is done inside is undone where the database refuses it: raises StoreRejected."""
        self._connection.execute("SAVEPOINT attempt", ())
        try:
            yield
        except self._refusals as exc:
            self._connection.execute("ROLLBACK TO SAVEPOINT attempt", ())
            self._connection.execute("RELEASE SAVEPOINT attempt", ())
            raise StoreRejected(str(exc)) from exc
        self._connection.execute("RELEASE SAVEPOINT attempt", ())


class Database:
    """Connections that are opened when they are needed and kept; any thread may ask.

    After a transaction has failed none is used again, and none kept that has not written: what
    SQLite opens while its disk cannot be written would never write.
    """

    def __init__(self, driver: Driver, prepare: Callable[[Session], None]) -> None:
        """prepare: done in a write transaction before any other, once it can be."""
        self._driver = driver
        self._prepare = prepare
        self._prepared = False
        self._idle: LifoQueue[Connection] = LifoQueue()
        self._busy: set[Connection] = set()
        self._doubtful = False
        self._lock = Lock()

    @contextmanager
    def reading(self) -> Generator[Session]:
        """Raises StoreUnavailable."""
        with self._transaction(self._driver.begin_read) as session:
            yield session

    @contextmanager
    def writing(self) -> Generator[Session]:
        """Raises StoreUnavailable, or StoreRejected; then nothing was done, or nobody can tell."""
        with self._transaction(self._driver.begin_write) as session:
            yield session

    def prepare(self) -> None:
        """Raises StoreUnavailable, and what the preparation raises."""
        if not self._prepared:
            with self._run(self._driver.begin_write) as session:
                self._prepare(session)
            self._prepared = True

    def close(self) -> None:
        """Waits for nobody: what other threads still do is broken off, and so undone."""
        self._close_idle()
        with self._lock:
            for connection in self._busy:
                connection.interrupt()

    @contextmanager
    def _transaction(self, begin: tuple[str, ...]) -> Generator[Session]:
        """What cannot be prepared is away: of a gateway that runs, the requests must go on."""
        try:
            self.prepare()
        except InvalidConfig as exc:
            told = "; ".join(problem.removeprefix("store.url: ") for problem in exc.problems)
            raise StoreUnavailable(told) from exc
        with self._run(begin) as session:
            yield session

    @contextmanager
    def _run(self, begin: tuple[str, ...]) -> Generator[Session]:
        """A connection that failed is not used again: nobody knows in what state it is."""
        if self._doubtful:
            self._close_idle()
        connection = self._idle_connection() or self._driver.connect()
        kept = False
        with self._lock:
            self._busy.add(connection)
        try:
            for sql in begin:
                connection.execute(sql, ())
            session = Session(connection, self._driver.refusals)
            yield session
            connection.execute("COMMIT", ())
            self._doubtful = self._doubtful and not session.wrote
            kept = not self._doubtful
        except (msgspec.DecodeError, RecursionError) as exc:
            told = f"it holds a row that this version cannot read: {exc}"
            raise StoreUnavailable(told) from exc
        except self._driver.refusals as exc:
            raise StoreRejected(str(exc)) from exc
        except self._driver.errors as exc:
            self._prepared = False
            self._doubtful = True
            raise self._driver.unavailable(exc) from exc
        finally:
            with self._lock:
                self._busy.discard(connection)
            if kept:
                self._idle.put(connection)
            else:
                connection.close()

    def _close_idle(self) -> None:
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
