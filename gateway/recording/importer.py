"""Moves rows from the spool into the store, each exactly once, whatever is killed and when.

Rows and the place in the file up to which they were read are one transaction of the store; a file
is removed after the store has all of it. One process at a time does this, by a lock in the spool.
"""

import logging
import os
import threading
import time
from pathlib import Path

from gateway.recording.frames import HEAD, Read, unpacked
from gateway.recording.spool import Spool, quarantine, reading, remove
from gateway.store.base import ImportResult, Sink
from gateway.store.errors import ConcurrentImport, StoreUnavailable

_log = logging.getLogger("strowger.records")
ROWS = 2_000
"""Of one transaction, about."""
_BYTES = 512 * 1024
_TIDY_S = 3600.0
DAY_S = 86_400.0


class Importer:
    """A thread between `start` and `stop`; or call `once` yourself.

    away: the store was, the last time. imported, refused: rows; foreign ones are among the latter.
    """

    def __init__(
        self,
        spool: Spool,
        store: Sink,
        *,
        every_s: float = 1.0,
        keep_days: int = 90,
        unavailable: bool = False,
    ) -> None:
        """away: it is known to be, and has been told."""
        self.unavailable = unavailable
        self.imported = self.rejected = 0
        self._spool = spool
        self._store = store
        self._every_s = every_s
        self._keep_s = keep_days * DAY_S
        self._positions: dict[str, int] = {}
        self._taken: dict[str, int] = {}
        self._whole_at = time.monotonic()
        self._shared = False
        self._tidy_at = 0.0
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self.run, name="importer", daemon=True)

    @property
    def lag_s(self) -> float:
        """Since the store last had everything."""
        return time.monotonic() - self._whole_at

    @property
    def waiting_bytes(self) -> int:
        """Of the spool, about: what the store does not have."""
        taken = self._positions or self._taken
        sizes = self._spool.sizes()
        return sum(max(size - taken.get(name, 0), 0) for name, size in sizes.items())

    def start(self) -> None:
        self._thread.start()

    def stop(self, timeout_s: float = 10.0) -> None:
        """Import what there is, and end. What the store is too slow for stays in the spool."""
        self._stopping.set()
        if self._thread.is_alive():
            self._thread.join(timeout_s)

    def run(self) -> None:
        """Until `stop`, and once more, unless the end would wait for a store that is away."""
        while not self._stopping.wait(self._every_s):
            self.import_once()
        if not self.unavailable:
            self.import_once()

    def import_once(self) -> int:
        """Import everything that is there. Returns the rows; logs a store or disk that is away."""
        began = time.monotonic()
        try:
            with self._spool.import_lock() as alone:
                if not alone:
                    self._on_shared_spool()
                    return 0
                rows = sum(self._import_file(path) for path in self._spool.files())
                if not rows:
                    self._store.ping()
                self._prune()
        except ConcurrentImport:
            self._on_shared_spool()
            return 0
        except (StoreUnavailable, OSError) as exc:
            self._on_unavailable(exc)
            return 0
        except Exception as exc:  # noqa: BLE001  a bug must not end imports for as long as we run
            if not self.unavailable:
                _log.exception("an import failed by a bug of ours; it is tried again")
            self._on_unavailable(exc)
            return 0
        if self.unavailable:
            _log.warning("the store is back and has the records that waited")
        self.unavailable = False
        self._whole_at = began
        return rows

    def _on_unavailable(self, why: Exception) -> None:
        """Where a commit's answer was lost, only the store knows up to where it took a file."""
        if self._positions:
            self._taken, self._positions = self._positions, {}
        if not self.unavailable:
            _log.error("records wait in %s, for the store is away: %s", self._spool.folder, why)
        self.unavailable = True

    def _on_shared_spool(self) -> None:
        """Two that share a spool take turns; only the store knows how far the other has come."""
        self._positions.clear()
        if not self._shared:
            _log.warning("another process imports %s as well; they take turns", self._spool.folder)
        self._shared = True

    def _import_file(self, path: Path) -> int:
        """All whole frames of one file; a finished one is removed when they are in the store."""
        imported = 0
        with reading(path) as (fd, finished):
            if path.name not in self._positions:
                self._positions[path.name] = self._store.position(path.name)
            while True:
                begin = max(self._positions[path.name], len(HEAD))
                read, left = _next(fd, begin)
                if not read.size:
                    break
                end = begin + read.size
                taken = self._store.import_rows(
                    path.name, self._positions[path.name], end, read.rows
                )
                self._positions[path.name] = end
                imported += taken.rows
                self.imported += taken.rows
                self.rejected += taken.rejected + taken.other_keys
                _log_rejected(taken)
            if finished:
                self._finish(path, torn=left, damaged=read.damaged)
        return imported

    def _finish(self, path: Path, *, torn: int, damaged: bool) -> None:
        """torn: bytes behind the last whole frame, which its writer did not live to complete."""
        if damaged:
            _log.error("records are damaged; what cannot be read is in %s", quarantine(path))
        elif torn:
            _log.warning("the last %d bytes of %s were never completed", torn, path.name)
        if not damaged:
            remove(path)
        self._store.forget(path.name)
        self._positions.pop(path.name, None)

    def _prune(self) -> None:
        """Once an hour: what is too old."""
        at = time.time()
        if at < self._tidy_at:
            return
        vain = self._store.prune(at - self._keep_s, at - DAY_S)
        if vain:
            _log.warning("%d feedbacks named a request that nobody knows; they are dropped", vain)
        self._spool.sweep()
        self._tidy_at = at + _TIDY_S


def _log_rejected(taken: ImportResult) -> None:
    """A client can give feedback on another's request, so that is no error of the operator's."""
    if taken.rejected:
        told = "%d records are lost, for the database takes no such values: %s"
        _log.error(told, taken.rejected, taken.why)
    if taken.other_keys:
        told = "%d votes are not kept, for they are about requests of other keys"
        _log.warning(told, taken.other_keys)


def _next(fd: int, begin: int) -> tuple[Read, int]:
    """Whole frames from a place on, and how many bytes are there; a huge frame is read whole."""
    size = _BYTES
    while True:
        data = os.pread(fd, size, begin)
        read = unpacked(data, limit=ROWS)
        if read.size or read.damaged or len(data) < size:
            return read, len(data)
        size *= 4
