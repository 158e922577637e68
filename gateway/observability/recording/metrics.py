"""Metrics of the recording: buffered and lost records, and the import lag."""

from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import partial

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from strowger_gateway.gateway.config.schema.audit import Audit
from strowger_gateway.gateway.observability.recording.audit_recorder import AuditRecorder
from strowger_gateway.gateway.observability.recording.importer_process import ImporterProcess
from strowger_gateway.gateway.observability.recording.recorder import FileRecorder
from strowger_gateway.gateway.observability.recording.spool import Spool

UNWRITABLE = frozenset({"full", "read_only", "denied"})
"""See StoreFault."""


class RecorderCollector(Collector):
    """Metrics of a serving process."""

    def __init__(self, recorder: FileRecorder) -> None:
        self._recorder = recorder

    def collect(self) -> Iterable[Metric]:
        yield CounterMetricFamily(
            "strowger_records_lost",
            "Records lost: the disk failed and the memory buffer was full.",
            value=self._recorder.lost,
        )
        yield GaugeMetricFamily(
            "strowger_spool_available",
            "1 while records are written to the spool, 0 while they are buffered in memory.",
            value=not self._recorder.failing,
        )
        yield GaugeMetricFamily(
            "strowger_records_in_memory",
            "Records that are not on the disk yet.",
            value=self._recorder.waiting,
        )


class ImporterCollector(Collector):
    """Metrics of the import, in the leader."""

    def __init__(self, importer: ImporterProcess, spool: Spool) -> None:
        self._importer = importer
        self._spool = spool

    def collect(self) -> Iterable[Metric]:
        status = self._importer.status
        yield GaugeMetricFamily(
            "strowger_store_available",
            "1 while the database is reachable, 0 while it is not.",
            value=not status.unavailable,
        )
        yield GaugeMetricFamily(
            "strowger_store_writable",
            "0 while the database answers and cannot be written: full, read-only, no permission.",
            value=status.fault not in UNWRITABLE,
        )
        yield GaugeMetricFamily(
            "strowger_importer_up",
            "1 while the importing process reports, 0 from a crash until the next one does.",
            value=not self._importer.problem,
        )
        yield CounterMetricFamily(
            "strowger_importer_restarts",
            "Importing processes that exited unexpectedly.",
            value=self._importer.restarts,
        )
        yield GaugeMetricFamily(
            "strowger_import_lag_seconds",
            "Seconds since the database last had all records of the spool.",
            value=status.lag_s,
        )
        yield _read(
            GaugeMetricFamily(
                "strowger_spool_bytes",
                "Size of the spool files; limited by store.max_spool_bytes.",
            ),
            self._spool.size,
        )
        yield _read(
            GaugeMetricFamily(
                "strowger_spool_waiting_bytes",
                "Bytes of records in the spool that the database does not have.",
            ),
            partial(self._spool.waiting_bytes, status.positions),
        )
        yield CounterMetricFamily(
            "strowger_records_imported",
            "Records imported into the database.",
            value=status.imported,
        )
        yield CounterMetricFamily(
            "strowger_records_rejected",
            "Records rejected by the database, and feedback on requests of other keys.",
            value=status.rejected,
        )


class ExportCollector(Collector):
    """Metrics of the export of records, in the leader; see `store.export`."""

    def __init__(self, importer: ImporterProcess) -> None:
        self._importer = importer

    def collect(self) -> Iterable[Metric]:
        export = self._importer.status.export
        rows = CounterMetricFamily(
            "strowger_records_exported", "Rows exported by this gateway.", labels=("table",)
        )
        for table in ("attempts", "requests"):
            rows.add_metric((table,), 0 if export is None else export.rows.get(table, 0))
        yield rows
        yield GaugeMetricFamily(
            "strowger_export_available",
            "1 while records are exported, 0 after a run that failed.",
            value=export is None or not export.failing,
        )
        yield GaugeMetricFamily(
            "strowger_export_last_success_timestamp_seconds",
            "When everything was exported last, by any gateway; 0: not known yet.",
            value=0 if export is None else export.ended,
        )


def _read(family: GaugeMetricFamily, size: Callable[[], int]) -> GaugeMetricFamily:
    """Return a gauge of files, without a value while their folder cannot be read.

    Other metrics, such as strowger_spool_available, are needed most then.
    """
    with suppress(OSError):
        family.add_metric([], size())
    return family


class AuditImportCollector(Collector):
    """Metrics of the audit log on its way to the store and to its file, in the leader."""

    def __init__(self, importer: ImporterProcess, spool: Spool, audit: Audit) -> None:
        self._importer = importer
        self._spool = spool
        self._audit = audit

    def collect(self) -> Iterable[Metric]:
        status = self._importer.status
        audit = status.audit
        yield GaugeMetricFamily(
            "strowger_audit_lag_seconds",
            "Seconds since the database last had all audit events.",
            value=status.audit_lag_s,
        )
        yield _read(
            GaugeMetricFamily(
                "strowger_audit_waiting_bytes",
                "Bytes of audit events that the database does not have.",
            ),
            partial(self._spool.waiting_bytes, {} if audit is None else audit.positions),
        )
        yield CounterMetricFamily(
            "strowger_audit_rows",
            "Audit events appended to the chain by this gateway.",
            value=0 if audit is None else audit.appended,
        )
        yield CounterMetricFamily(
            "strowger_audit_events_rejected",
            "Audit events lost: the database rejects their values.",
            value=0 if audit is None else audit.rejected,
        )
        if self._audit.file is not None:
            yield GaugeMetricFamily(
                "strowger_audit_file_available",
                "1 while rows are copied to audit.file, 0 while they wait in the database.",
                value=audit is None or not audit.file_failing,
            )


class AuditCollector(Collector):
    """Metrics of one process that records."""

    def __init__(self, recorder: AuditRecorder) -> None:
        self._recorder = recorder

    def collect(self) -> Iterable[Metric]:
        events = CounterMetricFamily(
            "strowger_audit_events",
            "Audit events that wait for the database; changes of API keys are stored at once.",
            labels=("action", "outcome"),
        )
        for labels, count in sorted(self._recorder.counts.items()):
            events.add_metric(labels, count)
        yield events
        yield CounterMetricFamily(
            "strowger_audit_events_lost",
            "Audit events lost: the disk failed, or audit.max_waiting_bytes was reached.",
            value=self._recorder.lost,
        )
