"""Metrics of the gateway synchronisation: whether Redis answers, and the number of gateways."""

from collections.abc import Iterable

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from strowger_gateway.gateway.coordination.gateway_sync import GatewaySync


class GatewaysCollector(Collector):
    """Metrics of the leader."""

    def __init__(self, sync: GatewaySync) -> None:
        self._sync = sync

    def collect(self) -> Iterable[Metric]:
        yield GaugeMetricFamily(
            "strowger_redis_available",
            "1 while Redis answers, 0 while gateways run without synchronisation.",
            value=not self._sync.unavailable,
        )
        yield GaugeMetricFamily(
            "strowger_redis_last_success_timestamp_seconds",
            "Time of the last answer of Redis, Unix seconds; 0 before the first.",
            value=self._sync.last_success_at,
        )
        yield GaugeMetricFamily(
            "strowger_gateways",
            "Live gateways that share the state of backends, this one included.",
            value=self._sync.gateways,
        )
        yield GaugeMetricFamily(
            "strowger_gateways_differing",
            "Live gateways whose configuration file differs from this one's, secrets aside.",
            value=self._sync.differing,
        )
        yield GaugeMetricFamily(
            "strowger_backends_suspected",
            "Backends that fail on several gateways, whose outcomes all of them add up.",
            value=self._sync.watched,
        )
        yield CounterMetricFamily(
            "strowger_circuits_opened_by_gateways_total",
            "Circuits that this gateway has opened on the failures of several gateways.",
            value=self._sync.opened,
        )
