"""Memory, processor time and open files of a process, under the names that all programs use.

https://prometheus.io/docs/instrumenting/writing_clientlibs/#process-metrics
"""

from collections.abc import Callable, Iterable

from prometheus_client import ProcessCollector
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector


class OwnProcess(Collector):
    """One process, under a name: a gateway has several, and Prometheus sees them as one target.

    pid: returns the process; `None` while there is none. By default, the one that collects.
    """

    def __init__(self, name: str, pid: Callable[[], int | None] | None = None) -> None:
        self._name = name
        self._pid = pid
        self._found = ProcessCollector(pid=self._id, registry=None)

    def collect(self) -> Iterable[Metric]:
        if self._pid is not None and self._pid() is None:
            return
        values = {
            sample.name: sample.value
            for metric in self._found.collect()
            for sample in metric.samples
        }
        labels = ["process"]
        families: tuple[Metric, ...] = (
            CounterMetricFamily(
                "process_cpu_seconds", "Processor time, in user and system mode.", labels=labels
            ),
            GaugeMetricFamily("process_resident_memory_bytes", "Memory in use.", labels=labels),
            GaugeMetricFamily("process_virtual_memory_bytes", "Addresses in use.", labels=labels),
            GaugeMetricFamily(
                "process_start_time_seconds", "When the process began, Unix time.", labels=labels
            ),
            GaugeMetricFamily("process_open_fds", "Open file descriptors.", labels=labels),
            GaugeMetricFamily("process_max_fds", "Limit of file descriptors.", labels=labels),
        )
        for family in families:
            total = "_total" if family.type == "counter" else ""
            value = values.get(family.name + total)
            if value is not None:
                family.add_sample(family.name + total, {"process": self._name}, value)
                yield family

    def _id(self) -> str:
        pid = None if self._pid is None else self._pid()
        return "self" if pid is None else str(pid)
