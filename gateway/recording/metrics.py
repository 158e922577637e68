"""What is told of the records: those that wait and are lost, and how far the store is behind."""

from collections.abc import Iterable

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from gateway.recording.importer import Importer
from gateway.recording.recorder import FileRecorder
from gateway.recording.spool import Spool


class RecorderCollector(Collector):
    """Of a process that serves."""

    def __init__(self, recorder: FileRecorder) -> None:
        self._recorder = recorder

    def collect(self) -> Iterable[Metric]:
        yield CounterMetricFamily(
            "strowger_records_lost",
            "Records that neither the disk took nor memory could hold.",
            value=self._recorder.lost,
        )
        yield GaugeMetricFamily(
            "strowger_spool_available",
            "1 while the disk takes records, 0 while they wait in memory.",
            value=not self._recorder.failing,
        )
        yield GaugeMetricFamily(
            "strowger_records_in_memory",
            "Records that are not on the disk yet.",
            value=self._recorder.waiting,
        )


class ImporterCollector(Collector):
    """Of the process that imports."""

    def __init__(self, importer: Importer, spool: Spool) -> None:
        self._importer = importer
        self._spool = spool

    def collect(self) -> Iterable[Metric]:
        importer = self._importer
        yield GaugeMetricFamily(
            "strowger_store_available",
            "1 while the database answers, 0 while it is away.",
            value=not importer.unavailable,
        )
        yield GaugeMetricFamily(
            "strowger_import_lag_seconds",
            "Since the database last had everything that was on the disk.",
            value=importer.lag_s,
        )
        yield GaugeMetricFamily(
            "strowger_spool_bytes",
            "Of store.max_spool_bytes, what the files take.",
            value=self._spool.size(),
        )
        yield GaugeMetricFamily(
            "strowger_spool_waiting_bytes",
            "Records in the files that the database does not have.",
            value=importer.waiting_bytes,
        )
        yield CounterMetricFamily(
            "strowger_records_imported", "Records in the database.", value=importer.imported
        )
        yield CounterMetricFamily(
            "strowger_records_rejected",
            "Records that no database would take, and feedback on requests of other keys.",
            value=importer.rejected,
        )
