"""Append the audit events that wait in the spool to the chain, and copy the chain to a file."""

import logging
import os
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from strowger_gateway.gateway.audit.chain import ChainHead, timestamp
from strowger_gateway.gateway.audit.event import AuditEvent
from strowger_gateway.gateway.observability.recording.audit_file import AuditFile
from strowger_gateway.gateway.observability.recording.audit_recorder import WHAT
from strowger_gateway.gateway.observability.recording.import_messages import (
    AuditImport,
    AuditProgress,
)
from strowger_gateway.gateway.observability.recording.importer import Importer
from strowger_gateway.gateway.observability.recording.spool import Spool
from strowger_gateway.gateway.storage.sql.audit_rows import AuditRows
from strowger_gateway.gateway.storage.sql.base import ImportResult, Sink
from strowger_gateway.gateway.storage.sql.errors import StoreUnavailable
from strowger_gateway.gateway.storage.sql.rows import Row

EVERY_S: Final = 1.0
ANCHOR_S: Final = 3600.0
"""Interval between lines in the log with the head of the chain, if it has grown."""

_FOR_EVER: Final = 36_500
_log = logging.getLogger("strowger.audit")


class _AuditSink:
    """The store as the importer of audit events sees it: it prunes the chain and nothing else."""

    def __init__(self, store: Sink, rows: AuditRows, *, prunes: bool) -> None:
        self._store = store
        self._rows = rows
        self._prunes = prunes

    def ping(self) -> None:
        self._store.ping()

    def position(self, file: str) -> int:
        return self._store.position(file)

    def import_rows(self, file: str, begin: int, end: int, rows: Sequence[Row]) -> ImportResult:
        return self._store.import_rows(file, begin, end, rows)

    def forget(self, file: str) -> None:
        self._store.forget(file)

    def prune(
        self,
        before: float,
        waiting_before: float,
        usage_before: float = 0.0,
        payloads_before: float = 0.0,
    ) -> int:
        """See Sink.prune: remove old rows; never reports feedback."""
        if self._prunes:
            removed = self._rows.prune(
                timestamp(before), AuditEvent(action="audit.prune", actor_kind="gateway")
            )
            if removed:
                _log.info("removed %d audit rows that are older than audit.keep_days", removed)
        return 0


class AuditImporter:
    """Runs in a thread of its own; see `Importer`, which it uses for the spool."""

    def __init__(
        self, settings: AuditImport, rows: AuditRows, store: Sink, *, unavailable: bool = False
    ) -> None:
        """unavailable: as for `Importer`."""
        spool = Spool(Path(os.fsdecode(settings.spool)), max_bytes=settings.max_waiting_bytes)
        self._rows = rows
        self._importer = Importer(
            spool,
            _AuditSink(store, rows, prunes=settings.keep_days is not None),
            keep_days=settings.keep_days or _FOR_EVER,
            unavailable=unavailable,
            what=WHAT,
        )
        self._file = (
            None
            if settings.file is None
            else AuditFile(Path(os.fsdecode(settings.file)), spool.folder)
        )
        self._unreadable = False
        self._logged = ChainHead(seq=0, hash="")
        self._log_at = 0.0

    def progress(self) -> AuditProgress:
        """Return the current figures; from any thread."""
        imported = self._importer.progress()
        return AuditProgress(
            appended=imported.imported,
            rejected=imported.rejected,
            copied=0 if self._file is None else self._file.copied,
            file_failing=self._file is not None and bool(self._file.failing),
            whole_s_ago=imported.whole_s_ago,
            positions=imported.positions,
        )

    def run(self, stopping: threading.Event) -> None:
        """Append and copy until `stopping` is set, then once more if the store is reachable."""
        waited = False
        while not waited:
            self._append()
            waited = stopping.wait(EVERY_S)
        if not self._importer.unavailable:
            self._log_at = 0.0
            self._append()
        if self._file is not None:
            self._file.close()

    def _append(self) -> None:
        self._importer.import_once()
        if self._importer.unavailable:
            return
        try:
            if self._file is not None:
                self._file.copy(self._rows)
            self._log_head()
            self._unreadable = False
        except StoreUnavailable as exc:
            if not self._unreadable:
                _log.error("cannot read the audit log in the store: %s", exc)
            self._unreadable = True
        except Exception:  # noqa: BLE001  a bug must not end the audit log for good
            _log.exception("internal error while copying the audit log; retrying")

    def _log_head(self) -> None:
        """Log the head at times: an anchor outside of the store, if the log is kept elsewhere."""
        at = time.monotonic()
        if at < self._log_at:
            return
        head = self._rows.head()
        if head.seq and head != self._logged:
            _log.info("audit log: row %d has the hash %s", head.seq, head.hash)
            self._logged = head
            self._log_at = at + ANCHOR_S
