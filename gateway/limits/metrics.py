"""Metrics of the limits of one process."""

from collections.abc import Iterable

from prometheus_client.core import CounterMetricFamily, Metric
from prometheus_client.registry import Collector

from gateway.limits.limits import RequestLimits


class LimitCollector(Collector):
    """Requests refused, by limit."""

    def __init__(self, limits: RequestLimits) -> None:
        self._limits = limits

    def collect(self) -> Iterable[Metric]:
        refused = CounterMetricFamily(
            "strowger_limit_refused_requests",
            "Requests refused by a limit, by what it lacked room for.",
            labels=["limit", "quantity"],
        )
        for (limit, quantity), count in self._limits.refused.items():
            refused.add_metric([limit, quantity], count)
        yield refused
