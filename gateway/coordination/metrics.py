"""What is told of the other replicas: whether Redis answers, and how many there are."""

from collections.abc import Iterable

from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from gateway.coordination.replica_sync import ReplicaSync


class ReplicaCollector(Collector):
    """Of the process that leads."""

    def __init__(self, exchange: ReplicaSync) -> None:
        self._exchange = exchange

    def collect(self) -> Iterable[Metric]:
        yield GaugeMetricFamily(
            "strowger_redis_available",
            "1 while Redis answers, 0 while each replica goes on by itself.",
            value=not self._exchange.unavailable,
        )
        yield GaugeMetricFamily(
            "strowger_redis_last_success_timestamp_seconds",
            "When Redis last answered, Unix time; 0 before it first did.",
            value=self._exchange.heard_at,
        )
        yield GaugeMetricFamily(
            "strowger_replicas",
            "Replicas that tell each other of their backends, this one included.",
            value=self._exchange.replicas,
        )
