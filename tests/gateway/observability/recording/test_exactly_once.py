"""Each row is imported exactly once, wherever an import is interrupted."""

import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from strowger_gateway.gateway.observability.recording.importer import Importer
from strowger_gateway.gateway.observability.recording.spool import Spool
from strowger_gateway.gateway.storage.sql.database import Value
from strowger_gateway.gateway.storage.sql.errors import StoreUnavailable
from strowger_gateway.gateway.storage.sql.rows import Row
from strowger_gateway.gateway.storage.sql.sql import SqlStore
from strowger_gateway.gateway.storage.sql.sqlite import SqliteConnection, SqliteDriver
from tests.examples import examples
from tests.gateway.observability.recording.written import packed
from tests.gateway.storage.sql.rows import attempt_row, request_row, vote
from tests.gateway.storage.sql.used import used


class Breaking(SqliteDriver):
    """SQLite that fails at the statements with these numbers; after the statement where `late`.

    A COMMIT that fails late was done, but that is unknown: the connection was lost with its answer.
    commits: the numbers of these statements.
    """

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.faults: dict[int, bool] = {}
        self.commits: set[int] = set()
        self.count = 0

    def connect(self) -> SqliteConnection:
        return _Breaking(super().connect(), self)

    def step(self) -> Iterator[None]:
        self.count += 1
        late = self.faults.get(self.count)
        if late is False:
            raise sqlite3.OperationalError("the connection is gone")
        yield
        if late:
            raise sqlite3.OperationalError("the connection is gone")


class _Breaking(SqliteConnection):
    def __init__(self, inner: SqliteConnection, driver: Breaking) -> None:
        self._inner = inner
        self._driver = driver

    def execute(self, sql: str, values: Sequence[Value]) -> sqlite3.Cursor:
        (cursor,) = [self._inner.execute(sql, values) for _ in self._driver.step()]
        if sql.startswith("COMMIT"):
            self._driver.commits.add(self._driver.count)
        return cursor

    def many(self, sql: str, rows: Iterable[Sequence[Value]]) -> None:
        for _ in self._driver.step():
            self._inner.many(sql, rows)

    def interrupt(self) -> None:
        self._inner.interrupt()

    def close(self) -> None:
        self._inner.close()


FILES: tuple[tuple[Sequence[Row], ...], ...] = (
    (
        [vote("r1", 3.0), request_row("r1", unit="u1"), attempt_row("r1")],
        [request_row("r2", unit="u1", variant="b", epoch=2), attempt_row("r2")],
        [vote("r2", 1.0), vote("r3", 5.0), request_row("r1", unit="u1"), attempt_row("r1")],
    ),
    ([request_row("r3", unit="u2"), attempt_row("r3"), attempt_row("r3", 2)], [vote("r1", 4.0)]),
)
"""Two workers' frames: votes before their request and after it, and rows that came twice."""


def told(store: SqlStore) -> tuple[object, ...]:
    """Return everything that could be counted twice or not at all."""
    outcomes = [store.outcomes("e", name) for name in ("error", "latency_ms", "stars")]
    return (used(store), *outcomes, store.counts("e"), store.request_counts("e"))


def import_until_done(spool: Spool, driver: Breaking) -> tuple[object, ...]:
    """Each pass by a new process, which knows nothing of the one before it."""
    for _ in range(50):
        with closing(SqlStore(driver)) as store:
            Importer(spool, store).import_once()
        if not spool.files():
            driver.faults = {}
            with closing(SqlStore(driver)) as store:
                return told(store)
    raise AssertionError("the import came to no end")


def filled(folder: Path) -> Spool:
    spool = Spool(folder / "spool")
    for frames in FILES:
        file = spool.create()
        for rows in frames:
            file.append(packed(rows))
        file.close()
    return spool


def empty_store() -> bytes:
    """A file of SQLite that has all tables and no row."""
    with TemporaryDirectory() as folder:
        file = Path(folder) / "store.db"
        with closing(SqlStore(SqliteDriver(file))) as store:
            store.counts("e")
        return file.read_bytes()


EMPTY = empty_store()
"""Most tests start from it, because creating the tables is half of the time of an import."""


def breaking(folder: Path, faults: dict[int, bool]) -> Breaking:
    file = folder / "store.db"
    file.write_bytes(EMPTY)
    driver = Breaking(file)
    driver.faults = faults
    return driver


def undisturbed() -> tuple[tuple[object, ...], int, set[int]]:
    """The content of the store after an undisturbed import, its statements, and which commit."""
    with TemporaryDirectory() as folder:
        driver = breaking(Path(folder), {})
        found = import_until_done(filled(Path(folder)), driver)
        return found, driver.count, driver.commits


EXPECTED, STATEMENTS, COMMITS = undisturbed()
FAULTS = [
    pytest.param(at, late, marks=() if at in COMMITS or not late else pytest.mark.nightly)
    for at in range(1, STATEMENTS + 1)
    for late in (False, True)
]
"""What is lost after a statement within a transaction is lost before the next one, too."""


def test_the_expected_result_is_the_one_that_a_person_would_count() -> None:
    rows, error, _, stars, _, answered = EXPECTED

    assert isinstance(rows, list)
    assert [(row.requests, row.attempts, row.prompt_tokens) for row in rows] == [(4, 4, 28)]  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]  a list of Used, seen as an object
    assert "units=2" in repr(error)
    assert "total=9.0" in repr(stars)
    assert repr(answered).count("requests=2") == 1


@pytest.mark.parametrize(("at", "late"), FAULTS)
def test_an_import_that_breaks_at_any_statement_goes_on_where_it_was(
    at: int, late: bool, tmp_path: Path
) -> None:
    driver = breaking(tmp_path, {at: late})

    found = import_until_done(filled(tmp_path), driver)

    assert found == EXPECTED


def test_creating_the_tables_breaks_at_every_seventh_statement_and_goes_on(tmp_path: Path) -> None:
    whole = Breaking(tmp_path / "whole.db")
    with closing(SqlStore(whole)) as store:
        store.counts("e")

    for at in range(1, whole.count + 1, 7):
        folder = tmp_path / str(at)
        folder.mkdir()
        driver = Breaking(folder / "store.db")
        driver.faults = {at: bool(at % 2)}
        assert import_until_done(filled(folder), driver) == EXPECTED, at


@settings(max_examples=examples(25), deadline=None)
@given(faults=st.dictionaries(st.integers(1, 2 * STATEMENTS), st.booleans(), max_size=12))
def test_an_import_that_breaks_again_and_again_counts_nothing_twice(
    faults: dict[int, bool],
) -> None:
    with TemporaryDirectory() as folder:
        driver = breaking(Path(folder), faults)

        found = import_until_done(filled(Path(folder)), driver)

    assert found == EXPECTED


def test_an_unreachable_store_is_logged_once_and_loses_nothing(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    folder = tmp_path / "not-there-yet"
    store = SqlStore(SqliteDriver(folder / "store.db"))
    importer = Importer(filled(tmp_path), store)

    before = [importer.import_once() for _ in range(3)]
    folder.mkdir()
    after = [importer.import_once() for _ in range(2)]
    store.close()

    assert (before, after) == ([0, 0, 0], [13, 0])
    assert [record.levelname for record in caplog.records] == ["ERROR", "WARNING"]
    assert "store unreachable" in caplog.records[0].message
    assert "store reachable again" in caplog.records[1].message


def test_queries_of_an_unreachable_store_are_refused_as_such(tmp_path: Path) -> None:
    store = SqlStore(SqliteDriver(tmp_path / "no-folder" / "store.db"))

    with pytest.raises(StoreUnavailable) as caught:
        store.pauses()

    assert caught.value.status == 503


def test_ten_thousand_requests_are_imported_in_seconds(tmp_path: Path) -> None:
    """In about one; the bound is for machines that are busy."""
    spool = Spool(tmp_path / "spool")
    file = spool.create()
    for part in range(10):
        names = [f"{part}-{number}" for number in range(1000)]
        file.append(packed([request_row(name, unit=name[-3:]) for name in names]))
        file.append(packed([attempt_row(name) for name in names]))
    file.close()
    store = SqlStore(SqliteDriver(tmp_path / "store.db"))

    imported = Importer(spool, store).import_once()
    (counts,) = store.request_counts("e")
    store.close()

    assert imported == 20_000
    assert counts.requests == 10_000
