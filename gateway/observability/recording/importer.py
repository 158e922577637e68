"""Import rows from the spool into the store, each exactly once, whatever is killed and when.

Rows and the file position up to which they were read are written in one transaction; a file is
removed after the store has all of it. A lock in the spool admits one importing process at a time.
"""

import logging
import math
import os
import threading
import time
from collections.abc import Callable
from pathlib import Path

from strowger_gateway.gateway.observability.recording.frames import HEAD, Read, unpacked
from strowger_gateway.gateway.observability.recording.import_messages import ImportProgress
from strowger_gateway.gateway.observability.recording.spool import (
    Spool,
    quarantine,
    reading,
    remove,
)
from strowger_gateway.gateway.storage.sql.base import ImportResult, Sink
from strowger_gateway.gateway.storage.sql.errors import ConcurrentImport, StoreUnavailable

_log = logging.getLogger("strowger.records")
ROWS = 2_000
"""Approximate number of rows per transaction."""
_BYTES = 512 * 1024
_TIDY_S = 3600.0
DAY_S = 86_400.0


class Importer:
    """Imports in the calling thread: `run` regularly, `import_once` one time.

    unavailable: the last import failed. imported, rejected: rows; feedback on requests of other
    keys counts as rejected. tried: set after each import of `run`.
    """

    def __init__(
        self,
        spool: Spool,
        store: Sink,
        *,
        every_s: float = 1.0,
        keep_days: int = 90,
        keep_usage_days: int = 400,
        keep_payload_days: int = 7,
        unavailable: bool = False,
        what: str = "records",
        clock: Callable[[], float] = time.time,
    ) -> None:
        """unavailable: the store is known to be unreachable, and that was logged.

        what: the rows are called this in the log. clock: Unix seconds.
        """
        self._what = what
        self.unavailable = unavailable
        self.imported = self.rejected = 0
        self._fault = ""
        self.tried = threading.Event()
        self._spool = spool
        self._store = store
        self._every_s = every_s
        self._keep_s = keep_days * DAY_S
        self._keep_usage_s = keep_usage_days * DAY_S
        self._keep_payloads_s = keep_payload_days * DAY_S
        self._positions: dict[str, int] = {}
        self._last_positions: dict[str, int] = {}
        self._whole_at: float | None = None
        self._shared = False
        self._clock = clock
        self._tidied_at = -math.inf

    def progress(self) -> ImportProgress:
        """Return the current figures; from any thread."""
        whole_at = self._whole_at
        return ImportProgress(
            unavailable=self.unavailable,
            imported=self.imported,
            rejected=self.rejected,
            whole_s_ago=None if whole_at is None else time.monotonic() - whole_at,
            positions=dict(self._positions or self._last_positions),
            fault=self._fault,
        )

    def run(self, stopping: threading.Event) -> None:
        """Import until `stopping` is set, then once more unless the store is unreachable."""
        waited = False
        while not waited:
            self.import_once()
            self.tried.set()
            waited = stopping.wait(self._every_s)
        if not self.unavailable:
            self.import_once()

    def import_once(self) -> int:
        """Import everything in the spool; return the number of rows.

        Logs an unreachable store or disk.
        """
        began = time.monotonic()
        try:
            with self._spool.import_lock() as locked:
                if not locked:
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
        except Exception as exc:  # noqa: BLE001  a bug must not end imports for good
            if not self.unavailable:
                _log.exception("internal error during import; retrying")
            self._on_unavailable(exc)
            return 0
        if self.unavailable:
            _log.warning("store reachable again, buffered %s imported", self._what)
        self.unavailable, self._fault = False, ""
        self._whole_at = began
        return rows

    def _on_unavailable(self, why: Exception) -> None:
        """Forget the positions: if a commit's answer was lost, only the store knows them."""
        if self._positions:
            self._last_positions, self._positions = self._positions, {}
        if not self.unavailable:
            message = "store unreachable, buffering %s in %s: %s"
            _log.error(message, self._what, self._spool.folder, why)
        self.unavailable = True
        self._fault = why.fault if isinstance(why, StoreUnavailable) else ""

    def _on_shared_spool(self) -> None:
        """Forget the positions: another process also imports the spool and moves them."""
        self._positions.clear()
        if not self._shared:
            _log.warning("another process also imports %s; the two alternate", self._spool.folder)
        self._shared = True

    def _import_file(self, path: Path) -> int:
        """Import all whole frames of one file; remove a finished file afterwards."""
        imported = 0
        with reading(path) as (fd, finished):
            if path.name not in self._positions:
                self._positions[path.name] = self._store.position(path.name)
            while True:
                begin = max(self._positions[path.name], len(HEAD))
                read, rest = _next(fd, begin)
                if not read.size:
                    break
                end = begin + read.size
                result = self._store.import_rows(
                    path.name, self._positions[path.name], end, read.rows
                )
                self._positions[path.name] = end
                imported += result.rows
                self.imported += result.rows
                self.rejected += result.rejected + result.unwanted
                _log_rejected(result)
            if finished:
                self._finish(path, torn=rest, damaged=read.damaged)
        return imported

    def _finish(self, path: Path, *, torn: int, damaged: bool) -> None:
        """Remove or quarantine a finished file.

        torn: bytes after the last whole frame, whose writer died before it completed them.
        """
        if damaged:
            _log.error("damaged records; the unreadable part was kept in %s", quarantine(path))
        elif torn:
            message = "ignored the last %d bytes of %s: the writer died before it completed them"
            _log.warning(message, torn, path.name)
        if not damaged:
            remove(path)
        self._store.forget(path.name)
        self._positions.pop(path.name, None)

    def _prune(self) -> None:
        """Remove what is too old, once per hour, and again if the clock was set back."""
        at = self._clock()
        if 0 <= at - self._tidied_at < _TIDY_S:
            return
        kept = (self._keep_s, self._keep_usage_s, self._keep_payloads_s)
        rows, usage, payloads = [max(0.0, at - one) for one in kept]
        unmatched = self._store.prune(rows, at - DAY_S, usage, payloads)
        if unmatched:
            _log.warning("dropped %d feedback rows: their request is unknown", unmatched)
        self._spool.sweep()
        self._tidied_at = at


def _log_rejected(result: ImportResult) -> None:
    """Log rejected rows. Feedback that may not be given is a client's error: only a warning."""
    if result.rejected:
        message = "%d records lost: the database rejects their values: %s"
        _log.error(message, result.rejected, result.why)
    if result.unwanted:
        message = (
            "rejected %d feedback rows: the request belongs to another API key, or the vote came "
            "later than votes_until of its experiment allows"
        )
        _log.warning(message, result.unwanted)


def _next(fd: int, begin: int) -> tuple[Read, int]:
    """Read the whole frames from a position, and the number of bytes there.

    A frame larger than the read size is read whole.
    """
    size = _BYTES
    while True:
        data = os.pread(fd, size, begin)
        read = unpacked(data, limit=ROWS)
        if read.size or read.damaged or len(data) < size:
            return read, len(data)
        size *= 4
