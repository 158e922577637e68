"""The leader's handle of the importing process: start it, restart it when it dies, and stop it."""

import logging
import os
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Mapping
from contextlib import suppress

from msgspec import Struct
from msgspec.structs import replace

from strowger_gateway.gateway.observability.recording.import_messages import (
    STOP_S,
    AuditProgress,
    ImportProgress,
    ImportSettings,
    LogLevel,
    StopImport,
    as_line,
    progress_decoder,
    settings_decoder,
)
from strowger_gateway.gateway.platform.child_environment import child_environment
from strowger_gateway.gateway.storage.parquet.progress import ExportProgress
from strowger_gateway.local_engine.child_process.interpreter import module_command

_log = logging.getLogger("strowger.records")
_strowger = logging.getLogger("strowger")

BACKOFF_S, MAX_BACKOFF_S = 0.5, 30.0
"""Delay before a restart; doubled by each crash, reset after STEADY_S."""

STEADY_S = 60.0
SILENT_S = 30.0
"""Time without a report after which a running process counts as hung; it reports every 2 s."""

EXIT_S = 3.0
"""Time for the process to exit after STOP_S; then it is killed."""


_UNCHANGED = "issued API keys cannot be changed"
_FAULTS: Mapping[str, str] = {
    "unreachable": f"the database cannot be reached: {_UNCHANGED}",
    "full": f"the database cannot be written, its disk is full: {_UNCHANGED}",
    "read_only": f"the database cannot be written, it is read-only: {_UNCHANGED}",
    "denied": f"the database cannot be written, its user lacks the permission: {_UNCHANGED}",
}


class ImportStatus(Struct, frozen=True, kw_only=True):
    """The figures of all importing processes since the start of the gateway, as last reported.

    fault: as in `ImportProgress`.
    audit, export: `None` before the first report; audit_whole_at: as whole_at.
    whole_at: the monotonic clock when the store last had everything. positions: the bytes of each
    spool file that the store has. What a process that is killed imported after its last report is
    not counted.
    """

    unavailable: bool
    imported: int
    rejected: int
    whole_at: float
    positions: Mapping[str, int]
    fault: str = ""
    audit: AuditProgress | None = None
    audit_whole_at: float = 0.0
    export: ExportProgress | None = None

    @property
    def audit_lag_s(self) -> float:
        """Seconds since the store last had all audit events."""
        return time.monotonic() - self.audit_whole_at

    @property
    def lag_s(self) -> float:
        """Seconds since the store last had everything."""
        return time.monotonic() - self.whole_at

    def after(self, earlier: "ImportStatus", progress: ImportProgress) -> "ImportStatus":
        """Return the figures with the progress of a process that started after `earlier`."""
        whole_s_ago, audit = progress.whole_s_ago, progress.audit
        audit_whole_s_ago = None if audit is None else audit.whole_s_ago
        return ImportStatus(
            unavailable=progress.unavailable,
            imported=earlier.imported + progress.imported,
            rejected=earlier.rejected + progress.rejected,
            whole_at=self.whole_at if whole_s_ago is None else time.monotonic() - whole_s_ago,
            positions=progress.positions or self.positions,
            fault=progress.fault,
            audit=_sum(earlier.audit, audit),
            export=_export_sum(earlier.export, progress.export),
            audit_whole_at=self.audit_whole_at
            if audit_whole_s_ago is None
            else time.monotonic() - audit_whole_s_ago,
        )


class ImporterProcess:
    """The importing process, kept alive from `start` to `stop` by a thread.

    status: the current figures. restarts: of processes that ended by themselves. A thread, because
    the process outlives the event loop: it imports what the last worker has written while it
    closed.
    """

    def __init__(self, settings: ImportSettings) -> None:
        """Raises msgspec.ValidationError for settings that the process would reject at each start.

        `msgspec.structs.replace` checks no types, neither when it runs nor for the type checker.
        """
        settings_decoder.decode(as_line(settings))
        self.status = ImportStatus(
            unavailable=settings.unavailable,
            imported=0,
            rejected=0,
            whole_at=time.monotonic(),
            positions={},
            audit_whole_at=time.monotonic(),
        )
        self.restarts = 0
        self._settings = settings
        self._failure = ""
        self._heard_at = time.monotonic()
        self._process: subprocess.Popen[bytes] | None = None
        self._started = self._released = False
        self._stopping = threading.Event()
        self._killed = False
        self._lock = threading.Lock()
        self._thread = threading.Thread(target=self._keep, name="importer", daemon=True)

    @property
    def pid(self) -> int | None:
        """Return the process that imports; `None` while there is none."""
        process = self._process
        return None if process is None else process.pid

    @property
    def problem(self) -> str:
        """Why nothing is imported, in words; "" while the process reports, and before `start`."""
        if self._failure:
            return f"{self._failure} ({self.restarts} restarts so far)"
        silent = time.monotonic() - self._heard_at
        if self._process is not None and silent > SILENT_S:
            return f"the importing process hangs: no report for {silent:.0f} s"
        return ""

    @property
    def trouble(self) -> str:
        """`problem`, or else why the store cannot be used, in words without addresses."""
        return self.problem or _FAULTS.get(self.status.fault, "")

    def start(self) -> None:
        """Start the process without waiting for it; nothing happens the second time."""
        if not self._started and not self._released:
            self._started = True
            self._thread.start()

    def release(self) -> None:
        """Stop as `stop` does, and never start again."""
        self._released = True
        self.stop()

    def stop(self) -> None:
        """Let it import the rest, and wait until it has exited; kill it if it takes too long.

        Nothing happens before `start`.
        """
        if not self._started:
            return
        with self._lock:
            self._stopping.set()
            if self._process is not None:
                _send(self._process, as_line(StopImport()))
        self._thread.join(STOP_S + EXIT_S)
        with self._lock:
            self._killed = True
            if self._process is not None:
                self._process.kill()
        self._thread.join(EXIT_S)

    def _keep(self) -> None:
        _block_signals()
        crashes = 0
        while True:
            last = self._stopping.is_set()
            began = time.monotonic()
            how = self._once()
            if self._stopping.is_set() and (last or self._killed or not how):
                if how:
                    message = "the importing process %s; the next start imports the rest"
                    _log.error(message, how)
                return
            self.restarts += 1
            self._failure = f"the importing process {how}"
            crashes = 1 if time.monotonic() - began > STEADY_S else crashes + 1
            pause = min(BACKOFF_S * 2.0 ** (crashes - 1), MAX_BACKOFF_S)
            _log.error("the importing process %s; restarting in %g s", how, pause)
            self._stopping.wait(pause)

    def _once(self) -> str:
        """Run one process until it exits; return how it failed, "" if it followed its orders."""
        try:
            status = self._run()
        except OSError as exc:
            return f"cannot be started ({exc})"
        except Exception:  # noqa: BLE001  a bug must not end imports for good
            _log.exception("internal error while following the importing process")
            return "was stopped after an internal error in the leader"
        if status < 0:
            return f"was killed by signal {-status}"
        return f"exited with status {status}" if status or not self._stopping.is_set() else ""

    def _run(self) -> int:
        """Run one process until it exits; return its exit status. Raises OSError."""
        with self._lock:
            process = self._spawn()
            self._heard_at = time.monotonic()
            self._process = process
        with process:
            try:
                self._follow(process)
                process.wait()
            finally:
                process.kill()
                with self._lock:
                    self._process = None
        return process.returncode

    def _spawn(self) -> "subprocess.Popen[bytes]":
        """Start a process and send it all orders so far. Raises OSError."""
        orders = as_line(replace(self._settings, unavailable=self.status.unavailable))
        if self._stopping.is_set():
            orders += as_line(StopImport())
        process = subprocess.Popen(
            module_command("strowger_gateway.gateway.observability.recording.import_program"),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=child_environment(),
        )
        _send(process, orders)
        return process

    def _follow(self, process: "subprocess.Popen[bytes]") -> None:
        """Take the reports of a process until it exits, and pass changes of the log level on."""
        assert process.stdout is not None
        earlier, level = self.status, logging.NOTSET
        for line in process.stdout:
            self.status = self.status.after(earlier, progress_decoder.decode(line))
            self._heard_at, self._failure = time.monotonic(), ""
            if level != _strowger.level:
                level = _strowger.level
                _send(process, as_line(LogLevel(level=level)))


def _sum(earlier: AuditProgress | None, audit: AuditProgress | None) -> AuditProgress | None:
    """Return the figures of all processes so far."""
    if earlier is None or audit is None:
        return audit or earlier
    return replace(
        audit,
        appended=earlier.appended + audit.appended,
        rejected=earlier.rejected + audit.rejected,
        copied=earlier.copied + audit.copied,
        positions=audit.positions or earlier.positions,
    )


def _export_sum(
    earlier: ExportProgress | None, export: ExportProgress | None
) -> ExportProgress | None:
    """Return the figures of all processes so far."""
    if earlier is None or export is None:
        return export or earlier
    rows = Counter(earlier.rows)
    rows.update(export.rows)
    return replace(export, rows=dict(rows), ended=max(earlier.ended, export.ended))


def _send(process: "subprocess.Popen[bytes]", orders: bytes) -> None:
    """Send lines; nothing happens if the process has died, as its exit status shows."""
    assert process.stdin is not None
    with suppress(OSError):
        os.write(process.stdin.fileno(), orders)


def _block_signals() -> None:
    """Keep signals from this thread and, until it ignores them itself, from its new process.

    A terminal sends Ctrl-C to all processes of its group. The main thread still gets ours.
    """
    if sys.platform != "win32":
        signal.pthread_sigmask(signal.SIG_BLOCK, (signal.SIGTERM, signal.SIGINT, signal.SIGHUP))
