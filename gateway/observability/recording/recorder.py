"""Write a worker's rows to its own spool file from a thread, and sync it about once per second."""

import logging
import threading
from collections import deque
from collections.abc import Iterable
from time import monotonic

from strowger_gateway.gateway.observability.recording.frames import ROWS, frame
from strowger_gateway.gateway.observability.recording.spool import Spool, SpoolFile, SpoolFull
from strowger_gateway.gateway.storage.sql.rows import SpoolEntry, size_of

_log = logging.getLogger("strowger.records")
_IDLE_FILE_S = 3600.0
_WAKE_ROWS = 512
"""So many rows wake the thread early, which bounds their memory."""


class FileRecorder:
    """Buffer a worker's rows and write them to the spool; `close` writes the rest.

    Rows added more than `every_s` ago survive the death of the process; including the 0.2 s for
    which the gateway collects finished requests, everything older than a second does. While the
    disk fails (full, unavailable, `store.max_spool_bytes` reached), rows wait in memory, about
    `limit` at most; further rows are counted and lost. The beginning and the end of such an outage
    are logged once each.
    """

    def __init__(
        self,
        spool: Spool,
        *,
        limit: int = 100_000,
        every_s: float = 0.75,
        what: str = "records",
    ) -> None:
        """what: the rows are called this in the log."""
        self._spool = spool
        self._what = what
        self._limit = limit
        self._every_s = every_s
        self._rows: deque[SpoolEntry] = deque()
        self._added = self._done = 0  # rows, so far; each is counted by one thread alone
        self._wake = threading.Event()
        self._closing = False
        self._file: SpoolFile | None = None
        self._unsynced: list[SpoolEntry] = []
        self._failing = False
        self._dropped = 0
        self._unwritten = 0
        self._reported_lost = 0
        self._thread = threading.Thread(target=self._run, name=what, daemon=True)
        self._thread.start()

    @property
    def full(self) -> bool:
        """True while rows are being lost."""
        return self.waiting >= self._limit

    @property
    def failing(self) -> bool:
        """True if the last write of rows to the disk failed."""
        return self._failing

    @property
    def waiting(self) -> int:
        """The number of rows in memory."""
        return self._added - self._done

    @property
    def lost(self) -> int:
        """The number of rows lost since the start."""
        return self._dropped + self._unwritten

    def add(self, row: SpoolEntry) -> None:
        self.extend((row,))

    def extend(self, rows: Iterable[SpoolEntry]) -> None:
        """Buffer rows; never blocks. Call it from one thread only."""
        for row in rows:
            size = size_of(row)
            if self.full:
                self._dropped += size
                continue
            self._added += size
            self._rows.append(row)
        if self._added - self._done >= _WAKE_ROWS and not self._failing:
            self._wake.set()

    def hurry(self) -> None:
        """Write what is buffered as soon as possible, unless the disk fails; never blocks."""
        if not self._failing:
            self._wake.set()

    def close(self) -> None:
        """Write everything and stop. Rows that cannot be written now are lost, and logged."""
        self._closing = True
        self._wake.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._closing:
            self._wake.wait(self._every_s)
            self._wake.clear()
            self._write_out()
            self._close_idle_file()
        self._write_out()
        if self._failing:
            self._write_out()  # into a new file: the failed write has closed a removed one
        self._unwritten += self.waiting
        if self.lost > self._reported_lost:
            _log.error("%d %s lost", self.lost - self._reported_lost, self._what)
        self._close_file()

    def _write_out(self) -> None:
        """Write all buffered rows to the disk; retry failed ones at the next call."""
        if not self._rows:
            return
        try:
            self._check_room()
            while self._rows:
                self._write_next()
            if self._unsynced and self._file is not None:
                self._sync(self._file)
        except OSError as exc:
            if not self._failing:
                message = "cannot write %s to the spool, buffering them in memory: %s"
                _log.error(message, self._what, exc)
            self._failing = True
            return
        except Exception:  # noqa: BLE001  a bug must not end recording for good
            if not self._failing:
                message = "internal error while writing %s; buffering them in memory"
                _log.exception(message, self._what)
            self._failing = True
            return
        if self._failing:
            self._failing = False  # first: who has read the message finds it true in the metrics
            lost = self.lost - self._reported_lost
            _log.warning("writing %s to the spool again; %d were lost", self._what, lost)
            self._reported_lost = self.lost

    def _close_idle_file(self) -> None:
        """Finish a file without writes for an hour, so that it can be imported and removed."""
        file = self._file
        if file is not None and not self._rows and monotonic() - file.written_at > _IDLE_FILE_S:
            self._close_file()

    def _check_room(self) -> None:
        """Raises SpoolFull, and then finishes our own file, so that the importer can remove it."""
        try:
            self._spool.check_room()
        except SpoolFull:
            if self._file is not None:
                self._sync(self._file)
            self._close_file()
            raise

    def _write_next(self) -> None:
        """Write the next rows as one frame. After a failure they are the next ones again."""
        file = self._file_with_room()
        rows: list[SpoolEntry] = []
        count = 0
        while self._rows and count < ROWS:
            row = self._rows.popleft()
            count += size_of(row)
            rows.append(row)
        try:
            file.append(*frame(rows))
        except OSError:
            self._rows.extendleft(reversed(rows))
            raise
        except ValueError:
            _log.exception("%d %s lost: they cannot be encoded as MessagePack", count, self._what)
            self._unwritten += count
            self._reported_lost += count
        else:
            self._unsynced += rows
        self._done += count

    def _file_with_room(self) -> SpoolFile:
        """Return the file to write to, a new one if the last is full. Raises OSError."""
        if self._file is not None and self._file.size > self._spool.rotate_bytes:
            self._sync(self._file)
            self._close_file()
            self._check_room()
        if self._file is None:
            self._file = self._spool.create()
        return self._file

    def _sync(self, file: SpoolFile) -> None:
        """Sync the file. After a failure, write all rows since the last successful sync again.

        What a failed sync has written is unknown; the store ignores rows that it already has.
        """
        rows, self._unsynced = self._unsynced, []
        try:
            file.sync()
        except OSError:
            self._rows.extendleft(reversed(rows))
            self._done -= sum(map(size_of, rows))
            self._close_file()
            raise

    def _close_file(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None
