"""Metrics of the replica synchronisation: whether Redis answers, and the number of replicas."""

from collections.abc import Iterable

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from gateway.coordination.replica_sync import ReplicaSync


class ReplicaCollector(Collector):
    """Metrics of the leader."""

    def __init__(self, sync: ReplicaSync) -> None:
        self._sync = sync

    def collect(self) -> Iterable[Metric]:
        yield GaugeMetricFamily(
            "strowger_redis_available",
            "1 while Redis answers, 0 while replicas run without synchronisation.",
            value=not self._sync.unavailable,
        )
        yield GaugeMetricFamily(
            "strowger_redis_last_success_timestamp_seconds",
            "Time of the last answer of Redis, Unix seconds; 0 before the first.",
            value=self._sync.last_success_at,
        )
        yield GaugeMetricFamily(
            "strowger_replicas",
            "Live replicas that share the state of backends, this one included.",
            value=self._sync.replicas,
        )
        yield GaugeMetricFamily(
            "strowger_replicas_differing",
            "Live replicas whose configuration file differs from this one's, secrets aside.",
            value=self._sync.differing,
        )
        yield GaugeMetricFamily(
            "strowger_backends_suspected",
            "Backends that fail on several replicas, whose outcomes all of them add up.",
            value=self._sync.watched,
        )
        yield CounterMetricFamily(
            "strowger_circuits_opened_by_replicas_total",
            "Circuits that this replica has opened on the failures of several replicas.",
            value=self._sync.opened,
        )
