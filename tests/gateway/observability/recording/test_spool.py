"""The spool keeps all rows: torn files, dead writers, and a full disk."""

import logging
import os
import resource
import signal
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Generator
from pathlib import Path

import pytest

from strowger_gateway.gateway.observability.recording.frames import HEAD, unpacked
from strowger_gateway.gateway.observability.recording.importer import Importer
from strowger_gateway.gateway.observability.recording.recorder import FileRecorder
from strowger_gateway.gateway.observability.recording.spool import MIB, Spool, SpoolFile
from strowger_gateway.gateway.observability.telemetry.access_log import AccessLine, as_json
from strowger_gateway.gateway.storage.sql.open import open_store
from strowger_gateway.gateway.storage.sql.rows import FeedbackRow, RequestBatch, Row
from strowger_gateway.gateway.storage.sql.sql import SqlStore
from strowger_gateway.schemas.secret import Secret
from tests.gateway.observability.recording.written import packed
from tests.gateway.storage.sql.rows import NOON, request_row

ROWS: list[Row] = [request_row(f"r{number}") for number in range(4)]
ROOT = Path(__file__).parents[4]


@pytest.fixture
def store(tmp_path: Path) -> Generator[SqlStore]:
    found = open_store(Secret(f"sqlite:///{tmp_path / 'store.db'}"))
    yield found
    found.close()


def requests(store: SqlStore) -> int:
    return sum(row.requests for row in store.request_counts("e"))


def booked_rows(*request_ids: str) -> RequestBatch:
    """Rows of requests that no backend was available for."""
    lines = [
        AccessLine(time=NOON, request_id=one, surface="openai", status=404, ms=1.0)
        for one in request_ids
    ]
    return RequestBatch(count=len(lines), lines=as_json(lines))


def finished(spool: Spool, data: bytes) -> SpoolFile:
    """A file whose writer has exited."""
    file = spool.create()
    file.append(data)
    file.close()
    return file


def test_a_file_torn_at_any_byte_gives_its_whole_frames_and_no_more() -> None:
    data = packed(ROWS[:2]) + packed(ROWS[2:])
    first = len(packed(ROWS[:2]))

    for cut in range(len(data) + 1):
        read = unpacked(data[:cut], limit=100)

        whole = 4 if cut == len(data) else 2 if cut >= first else 0
        assert list(read.rows) == ROWS[:whole]
        assert not read.damaged


def test_a_changed_byte_is_damage_and_never_another_row() -> None:
    data = packed(ROWS[:2]) + packed(ROWS[2:])

    for place in range(8, len(data)):
        changed = bytearray(data)
        changed[place] ^= 0x40
        read = unpacked(bytes(changed), limit=100)

        assert list(read.rows) in ([], ROWS[:2])


def test_a_dead_writers_torn_end_is_dropped_and_its_file_removed(
    store: SqlStore, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    spool = Spool(tmp_path / "spool")
    file = finished(spool, packed(ROWS) + packed(ROWS)[:-1])

    with caplog.at_level(logging.WARNING):
        imported = Importer(spool, store).import_once()

    assert imported == requests(store) == 4
    assert not file.path.exists()
    assert "died before it completed them" in caplog.text


def test_what_no_database_takes_is_an_error_and_a_strangers_vote_is_none(
    store: SqlStore, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    spool = Spool(tmp_path / "spool")
    vote = FeedbackRow(request_id="r1", time=1.0, key="thief", metric="liked", value=1.0)
    finished(spool, packed([request_row("r1"), vote, request_row("r2", tokens=2**63)]))

    Importer(spool, store).import_once()

    assert [(one.levelname, one.getMessage().partition(":")[0]) for one in caplog.records] == [
        ("ERROR", "1 records lost"),
        ("WARNING", "rejected 1 feedback rows"),
    ]


def test_a_damaged_file_is_set_apart(store: SqlStore, tmp_path: Path) -> None:
    spool = Spool(tmp_path / "spool")
    torn = bytearray(packed(ROWS))
    torn[-1] ^= 1
    file = finished(spool, packed(ROWS) + bytes(torn))

    Importer(spool, store).import_once()

    assert requests(store) == 4
    assert not file.path.exists()
    assert file.path.with_suffix(".damaged").exists()


def test_a_living_writers_half_frame_is_waited_for(store: SqlStore, tmp_path: Path) -> None:
    spool = Spool(tmp_path / "spool")
    importer = Importer(spool, store)
    file = spool.create()
    data = packed(ROWS)
    file.append(data[:50])
    before = importer.import_once()

    file.append(data[50:])
    after = importer.import_once()

    assert (before, after) == (0, 4)
    assert file.path.exists()
    file.close()


def test_a_frame_larger_than_any_read_is_read_whole(store: SqlStore, tmp_path: Path) -> None:
    spool = Spool(tmp_path / "spool")
    file = finished(spool, packed([request_row("r1", error="e" * 9 * MIB)]))

    imported = Importer(spool, store).import_once()

    assert imported == 1
    assert not file.path.exists()


def test_a_large_file_is_replaced_by_a_new_one(store: SqlStore, tmp_path: Path) -> None:
    spool = Spool(tmp_path / "spool", max_bytes=80_000)
    recorder = FileRecorder(spool, every_s=0.02)

    for part in range(3):
        recorder.extend(request_row(f"{part}-{number}") for number in range(4096))
        while requests(store) < 4096 * (part + 1):
            Importer(spool, store).import_once()
    recorder.close()
    Importer(spool, store).import_once()

    assert requests(store) == 3 * 4096
    assert spool.files() == []


WRITER = """
    import os, sys, time
    from pathlib import Path
    from strowger_gateway.gateway.observability.recording.recorder import FileRecorder
    from strowger_gateway.gateway.observability.recording.spool import Spool
    from tests.gateway.storage.sql.rows import request_row

    recorder = FileRecorder(Spool(Path(sys.argv[1])), every_s=0.001)
    for number in range(1_000_000):
        recorder.add(request_row(f"{os.getpid()}-{number}"))
        if number % 5 == 0:
            time.sleep(0.001)
"""


def writer(folder: Path) -> "subprocess.Popen[bytes]":
    return subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(WRITER), str(folder)],
        cwd=ROOT,
    )


def test_what_a_killed_writer_had_written_is_imported_once_and_without_gaps(
    store: SqlStore, tmp_path: Path
) -> None:
    """The writer is killed while it writes and syncs, and its file is imported at the same time."""
    spool = Spool(tmp_path / "spool")
    importer = Importer(spool, store)
    with writer(spool.folder) as process:
        imported = 0
        while imported < 500:
            imported += importer.import_once()
        process.send_signal(signal.SIGKILL)
        process.wait()

    importer.import_once()

    count = requests(store)
    assert count >= imported
    assert store.known_request(f"{process.pid}-{count - 1}") is not None
    assert store.known_request(f"{process.pid}-{count}") is None
    assert spool.files() == []


FULL_DISK = """
    import resource, sys, time
    from pathlib import Path
    from strowger_gateway.gateway.observability.recording.recorder import FileRecorder
    from strowger_gateway.gateway.observability.recording.spool import Spool
    from tests.gateway.storage.sql.rows import request_row

    hard = resource.getrlimit(resource.RLIMIT_FSIZE)[1]
    resource.setrlimit(resource.RLIMIT_FSIZE, (20, hard))  # of the first frame
    recorder = FileRecorder(Spool(Path(sys.argv[1])), limit=200, every_s=0.02)
    recorder.add(request_row("r0"))
    while not recorder.failing:
        time.sleep(0.01)
    for number in range(1, 300):
        recorder.add(request_row(f"r{number}"))
    assert recorder.full
    assert recorder.lost == 100
    resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))
    while recorder.full:
        time.sleep(0.01)
    recorder.add(request_row("afterwards"))
    recorder.close()
    assert recorder.lost == 100
"""


def test_a_disk_that_is_full_for_a_while_loses_only_what_memory_cannot_hold(
    store: SqlStore, tmp_path: Path
) -> None:
    """A limit on the file's size cuts a frame in its middle, as a full disk does."""
    spool = Spool(tmp_path / "spool")

    process = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(FULL_DISK), str(spool.folder)],
        check=False,
        capture_output=True,
        cwd=ROOT,
    )
    Importer(spool, store).import_once()

    assert process.returncode == 0, process.stderr.decode()
    log = process.stderr.decode().splitlines()
    assert [line for line in log if "cannot write records" in line] == log[:1]
    assert "writing records to the spool again; 100 were lost" in log[1:]
    assert requests(store) == 201
    assert store.known_request("r199") is not None
    assert store.known_request("r200") is None


def test_a_spool_at_its_bound_takes_no_more_until_the_store_has_some(
    store: SqlStore, tmp_path: Path
) -> None:
    spool = Spool(tmp_path / "spool", max_bytes=2_000)
    finished(spool, packed([request_row(f"old-{number}") for number in range(30)]))
    recorder = FileRecorder(spool, limit=10, every_s=0.01)

    recorder.extend(request_row(f"r{number}") for number in range(12))
    full, lost = recorder.full, recorder.lost
    Importer(spool, store).import_once()
    recorder.close()
    Importer(spool, store).import_once()

    assert (full, lost) == (True, 2)
    assert requests(store) == 30 + 10


def test_requests_that_were_recorded_together_are_counted_one_by_one(
    store: SqlStore, tmp_path: Path
) -> None:
    """A batch begins where there is room, and is never cut."""
    spool = Spool(tmp_path / "spool", max_bytes=100)
    finished(spool, packed(ROWS))
    recorder = FileRecorder(spool, limit=100, every_s=0.01)

    for batch in range(3):
        recorder.add(booked_rows(*[f"b{batch}-{number}" for number in range(64)]))
    seen = recorder.waiting, recorder.full, recorder.lost
    Importer(spool, store).import_once()
    recorder.close()
    Importer(spool, store).import_once()

    assert seen == (128, True, 64)
    assert store.known_request("b1-63") is not None
    assert store.known_request("b2-0") is None


def test_frames_end_after_so_many_requests(tmp_path: Path) -> None:
    """So that damage takes few along, and an importer never has too many in memory."""
    batches = [booked_rows(*[f"{batch}-{number}" for number in range(64)]) for batch in range(9)]
    spool = Spool(tmp_path / "spool")
    recorder = FileRecorder(spool, every_s=60)

    recorder.extend(batches)
    recorder.close()

    (file,) = spool.files()
    data = file.read_bytes().removeprefix(HEAD)
    sizes: list[int] = []
    while data:
        read = unpacked(data, limit=1)
        sizes.append(len(read.rows))
        data = data[read.size :]
    assert sizes == [256, 256, 64]


def test_a_removed_spool_is_recreated_with_what_was_not_imported(
    store: SqlStore, tmp_path: Path
) -> None:
    spool = Spool(tmp_path / "spool")
    recorder = FileRecorder(spool, every_s=0.01)
    recorder.add(request_row("r1"))
    while not (files := spool.files()) or files[0].stat().st_size == len(HEAD):
        pass
    files[0].unlink()

    recorder.add(request_row("r2"))
    recorder.close()
    Importer(spool, store).import_once()

    assert store.known_request("r2") is not None


class _VanishingFile(SpoolFile):
    """Disappears as soon as it is on the disk, in the moment in which the gateway stops."""

    recorder: FileRecorder
    closing: threading.Thread | None = None

    def sync(self) -> None:
        super().sync()
        if self.closing is None:
            self.path.unlink()
            self.recorder.add(request_row("r2"))
            closing = threading.Thread(target=self.recorder.close)
            closing.start()
            self.closing = closing
            time.sleep(0.05)  # it waits for the thread that runs this


class _VanishingSpool(Spool):
    first: _VanishingFile | None = None
    recorder: FileRecorder

    def create(self) -> SpoolFile:
        file = super().create()
        if self.first is not None:
            return file
        self.first = _VanishingFile(file.path, os.open(file.path, os.O_RDWR))
        self.first.recorder = self.recorder
        return self.first


def test_a_spool_that_is_removed_while_the_gateway_stops_is_recreated(
    store: SqlStore, tmp_path: Path
) -> None:
    spool = _VanishingSpool(tmp_path / "spool")
    spool.recorder = FileRecorder(spool, every_s=0.01)
    spool.recorder.add(request_row("r1"))
    while spool.first is None or spool.first.closing is None:
        pass
    spool.first.closing.join()
    Importer(spool, store).import_once()

    assert store.known_request("r2") is not None


def test_two_importers_of_one_spool_take_turns(
    store: SqlStore, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    spool = Spool(tmp_path / "spool")
    finished(spool, packed(ROWS))
    second = Importer(spool, store)

    with spool.import_lock() as alone:
        refused = [second.import_once(), second.import_once()]
    imported = second.import_once()

    assert alone
    assert (refused, imported) == ([0, 0], 4)
    assert caplog.text.count("another process also imports") == 1


def test_an_importer_that_was_overtaken_logs_no_outage(
    store: SqlStore, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    spool = Spool(tmp_path / "spool")
    first, second = Importer(spool, store), Importer(spool, store)
    file = spool.create()
    imported: list[int] = []

    for number, importer in enumerate((first, second, first, first)):
        file.append(packed([request_row(f"r{number}")]))
        imported.append(importer.import_once())

    assert imported == [1, 1, 0, 2]
    assert not first.unavailable
    assert [record.levelname for record in caplog.records] == ["WARNING"]


def test_importing_at_the_same_time_from_many_threads_takes_each_row_once(
    store: SqlStore, tmp_path: Path
) -> None:
    spool = Spool(tmp_path / "spool")
    for part in range(20):
        finished(spool, packed([request_row(f"{part}-{number}") for number in range(50)]))

    threads = [threading.Thread(target=Importer(spool, store).import_once) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    Importer(spool, store).import_once()

    assert requests(store) == 1000


def test_what_writers_left_while_they_were_born_is_swept(store: SqlStore, tmp_path: Path) -> None:
    spool = Spool(tmp_path / "spool")
    spool.folder.mkdir()
    old, young = spool.folder / "1.new", spool.folder / "2.new"
    old.touch()
    young.touch()
    os.utime(old, (1, 1))

    Importer(spool, store).import_once()

    assert not old.exists()
    assert young.exists()


def test_limits_can_be_set_here() -> None:
    """The test of a full disk depends on this."""
    assert resource.getrlimit(resource.RLIMIT_FSIZE)[1] == resource.RLIM_INFINITY
