"""The importing process:
`python -m strowger_gateway.gateway.observability.recording.import_program`.

The leader starts it and sends it orders on its standard input: its settings, changes of the log
level, and the order to stop. It reports its progress on its standard output. When the input ends
without an order, the leader has died: the process then imports the rest and exits, too.
"""

import gc
import logging
import os
import signal
import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec.structs import replace

from strowger_gateway.gateway.observability.recording.audit_importer import AuditImporter
from strowger_gateway.gateway.observability.recording.import_messages import (
    STOP_S,
    ExportSettings,
    LogLevel,
    StopImport,
    as_line,
    order_decoder,
    settings_decoder,
)
from strowger_gateway.gateway.observability.recording.importer import Importer
from strowger_gateway.gateway.observability.recording.spool import Spool
from strowger_gateway.gateway.observability.telemetry.logs import configure_logging
from strowger_gateway.gateway.storage.sql.open import open_store
from strowger_gateway.gateway.storage.sql.sql import SqlStore
from strowger_gateway.schemas.secret import Secret

if TYPE_CHECKING:
    from strowger_gateway.gateway.storage.parquet.background import BackgroundExport

_log = logging.getLogger("strowger.records")

INTERRUPTED_S = 1.0
"""Time for a transaction to end that was interrupted after STOP_S."""

EXPORT_S = 2.0
"""Time for the export's current write to end."""

REPORT_S = 2.0
"""Interval between reports while an import takes longer; otherwise each import is reported."""


def main() -> None:
    """Import until the leader says stop or dies. Signals are ignored: the leader handles them."""
    _ignore_signals()
    reports = _claim_stdout()
    first = sys.stdin.buffer.readline()
    if not first:
        return
    settings = settings_decoder.decode(first)
    configure_logging(settings.logging)
    store = open_store(Secret(os.fsdecode(settings.url)))
    importer = Importer(
        Spool(
            Path(os.fsdecode(settings.spool)),
            max_bytes=settings.max_spool_bytes,
            owner=settings.owner,
        ),
        store,
        keep_days=settings.keep_days,
        keep_usage_days=settings.keep_usage_days,
        keep_payload_days=settings.keep_payload_days,
        unavailable=settings.unavailable,
    )
    audit = None
    if settings.audit is not None:
        audit = AuditImporter(settings.audit, store.audit, store, unavailable=settings.unavailable)
    stopping, done = threading.Event(), threading.Event()
    threading.Thread(target=_obey, args=(stopping, done, store), daemon=True).start()
    export = None if settings.export is None else _export(settings.export, store, settings.url)
    threading.Thread(target=_report, args=(importer, audit, export, reports), daemon=True).start()
    _tune_garbage_collector()
    appending = threading.Thread(target=_append, args=(audit, stopping), name="audit")
    appending.start()
    exporting = threading.Thread(target=_run_export, args=(export, stopping), daemon=True)
    exporting.start()
    importer.run(stopping)
    appending.join()
    exporting.join(EXPORT_S)
    done.set()
    store.close()
    if exporting.is_alive():
        os._exit(0)  # it writes to a server that hangs; the next process continues


def _ignore_signals() -> None:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    if sys.platform != "win32":
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
        signal.signal(signal.SIGUSR2, signal.SIG_IGN)


def _claim_stdout() -> int:
    """Return a descriptor for the reports; what a library prints goes to stderr instead."""
    reports = os.dup(sys.stdout.fileno())
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    return reports


def _obey(stopping: threading.Event, done: threading.Event, store: SqlStore) -> None:
    """Follow the leader's orders; stop with the last one, or when the leader has died."""
    try:
        for line in sys.stdin.buffer:
            match order_decoder.decode(line):
                case LogLevel(level=level):
                    logging.getLogger("strowger").setLevel(level)
                case StopImport():
                    break
        else:
            _log.warning("lost the leader process; importing the rest and exiting")
    finally:
        stopping.set()
    if not done.wait(STOP_S):
        store.close()  # interrupts the transaction, which rolls back
        if not done.wait(INTERRUPTED_S):
            os._exit(1)


def _append(audit: AuditImporter | None, stopping: threading.Event) -> None:
    if audit is not None:
        audit.run(stopping)


def _export(settings: ExportSettings, store: SqlStore, url: bytes) -> "BackgroundExport":
    """Import the modules of the export where it is configured, and return it."""
    from strowger_gateway.gateway.storage.parquet.background import BackgroundExport

    where, secret = os.fsdecode(settings.to), Secret(os.fsdecode(url))
    return BackgroundExport(store.database, secret, where, settings.every_s)


def _run_export(export: "BackgroundExport | None", stopping: threading.Event) -> None:
    if export is not None:
        export.run(stopping)


def _report(
    importer: Importer,
    audit: AuditImporter | None,
    export: "BackgroundExport | None",
    reports: int,
) -> None:
    """Report the progress regularly, in a thread of its own: a leader that hangs reads nothing."""
    while True:
        importer.tried.wait(REPORT_S)
        importer.tried.clear()
        progress = replace(
            importer.progress(),
            audit=None if audit is None else audit.progress(),
            export=None if export is None else export.progress(),
        )
        try:
            os.write(reports, as_line(progress))
        except OSError:
            return


def _tune_garbage_collector() -> None:
    """Collect less often: an import makes thousands of rows at a time, and no cycles."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000, 20, 20)


if __name__ == "__main__":
    main()
