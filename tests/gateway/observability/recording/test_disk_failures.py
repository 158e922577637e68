"""SQLite on a disk that becomes full or read-only while the gateway serves.

The errors of SQLite were observed on a full ext4, and on one that the kernel had made read-only
after an error; here SQLite is made to raise them, which works on any machine.
"""

import sqlite3
from collections.abc import Iterable, Sequence
from pathlib import Path

import pytest

from strowger_gateway.gateway.experiments.experiment_service import ExperimentService
from strowger_gateway.gateway.observability.recording.importer import Importer
from strowger_gateway.gateway.observability.recording.spool import Spool
from strowger_gateway.gateway.routing.planning.enrolment import ExperimentState, ExperimentStatus
from strowger_gateway.gateway.storage.sql.database import Value
from strowger_gateway.gateway.storage.sql.errors import StoreUnavailable
from strowger_gateway.gateway.storage.sql.rows import Row
from strowger_gateway.gateway.storage.sql.sql import SqlStore
from strowger_gateway.gateway.storage.sql.sqlite import SqliteConnection, SqliteDriver
from strowger_gateway.gateway.storage.store_access import StoreAccess
from tests.gateway.config.configs import read
from tests.gateway.experiments.recorded_gateway import Rows, config
from tests.gateway.observability.recording.written import packed
from tests.gateway.storage.sql.rows import attempt_row, request_row
from tests.gateway.storage.sql.used import used

pytestmark = pytest.mark.anyio

NEVER_S = 1000.0
REQUESTS = 50
"""Of one time; their rows need more room than a page has."""


class Disk(SqliteDriver):
    """full: no database on it can grow. read_only: nothing is written, and what is opened in that
    state will never write, as with SQLite."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.full = self.read_only = False
        self._reading = f"{path.as_uri()}?mode=ro"

    def connect(self) -> "OnDisk":
        if not self.read_only:
            return OnDisk(super().connect(), self)
        only_reads = sqlite3.connect(
            self._reading, uri=True, isolation_level=None, check_same_thread=False
        )
        return OnDisk(SqliteConnection(only_reads), self)


class OnDisk(SqliteConnection):
    def __init__(self, inner: SqliteConnection, disk: Disk) -> None:
        self._inner = inner
        self._disk = disk
        self._opened_read_only = disk.read_only

    def execute(self, sql: str, values: Sequence[Value]) -> sqlite3.Cursor:
        if sql.startswith("BEGIN"):
            pages = 1 if self._disk.full else 1_000_000
            self._inner.execute(f"PRAGMA max_page_count = {pages}", ())
            if not self._opened_read_only:
                self._inner.execute(f"PRAGMA query_only = {int(self._disk.read_only)}", ())
        return self._inner.execute(sql, values)

    def many(self, sql: str, rows: Iterable[Sequence[Value]]) -> None:
        self._inner.many(sql, rows)

    def interrupt(self) -> None:
        self._inner.interrupt()

    def close(self) -> None:
        self._inner.close()


@pytest.fixture
def disk(tmp_path: Path) -> Disk:
    return Disk(tmp_path / "strowger.db")


def frames(time: str) -> bytes:
    rows: list[Row] = []
    for number in range(REQUESTS):
        rows += [request_row(f"{time}-{number}"), attempt_row(f"{time}-{number}")]
    return packed(rows)


@pytest.mark.parametrize(
    ("trouble", "words"),
    [("full", "database or disk is full"), ("read_only", "attempt to write a readonly database")],
)
def test_rows_wait_in_the_spool_until_the_disk_takes_them_each_once(
    trouble: str, words: str, disk: Disk, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    store, spool = SqlStore(disk), Spool(tmp_path / "spool")
    importer, file = Importer(spool, store), spool.create()
    file.append(frames("before"))
    before = importer.import_once()

    setattr(disk, trouble, True)
    file.append(frames("during"))
    during = [importer.import_once() for _ in range(3)]
    told = [store.pauses(), [(row.requests, row.attempts) for row in used(store)]]
    away = importer.progress()
    waiting = spool.waiting_bytes(away.positions)
    setattr(disk, trouble, False)
    file.append(frames("after"))
    after = sum(importer.import_once() for _ in range(2))
    rows = [(row.requests, row.attempts) for row in used(store)]
    store.close()

    assert (before, during, after) == (2 * REQUESTS, [0, 0, 0], 4 * REQUESTS)
    assert told == [{}, [(REQUESTS, REQUESTS)]], "what is there can be read"
    assert (waiting, away.unavailable) == (len(frames("during")), True)
    assert not importer.unavailable
    assert spool.waiting_bytes(importer.progress().positions) == 0
    assert rows == [(3 * REQUESTS, 3 * REQUESTS)]
    assert [record.levelname for record in caplog.records] == ["ERROR", "WARNING"]
    assert words in caplog.records[0].message
    assert away.fault == trouble


def test_an_idle_gateway_notices_that_its_database_is_read_only(disk: Disk, tmp_path: Path) -> None:
    store = SqlStore(disk)
    importer = Importer(Spool(tmp_path / "spool"), store)
    importer.import_once()
    before = importer.progress().fault
    disk.read_only = True
    store.probe_writes()
    importer.import_once()
    during = importer.progress()
    disk.read_only = False
    importer.import_once()
    after = importer.progress()
    store.close()

    assert (before, during.fault, after.fault) == ("", "read_only", "")
    assert (during.unavailable, after.unavailable) == (True, False)


async def test_experiments_continue_unchanged_and_a_pause_fails_with_the_reason(
    disk: Disk,
) -> None:
    (experiment,) = read(config("http://127.0.0.1:9/v1")).experiments
    store = SqlStore(disk)
    access = StoreAccess(store)
    trials = ExperimentService(
        access, Rows("-"), ExperimentState(), lambda: [experiment], poll_interval_s=NEVER_S
    )
    await trials.start()

    disk.read_only = True
    with pytest.raises(StoreUnavailable, match="attempt to write a readonly database"):
        await trials.pause(experiment, "too dear", 1.0)
    await trials.refresh()
    during = trials.status(experiment)
    disk.read_only = False
    await trials.pause(experiment, "too dear", 1.0)
    after = trials.status(experiment)
    await trials.close()
    access.close()
    store.close()

    assert during == ExperimentStatus(epoch=1)
    assert after == ExperimentStatus(epoch=2, paused=True, reason="too dear")
