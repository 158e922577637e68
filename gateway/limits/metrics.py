"""Metrics of the limits of one process."""

from collections.abc import Iterable

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from gateway.limits.limits import RequestLimits


class LimitCollector(Collector):
    """Requests refused, and requests that wait or have waited, by limit."""

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
        yield GaugeMetricFamily(
            "strowger_limit_waiting_requests",
            "Requests that wait for room in a limit.",
            value=self._limits.queue.waiting,
        )
        waited = CounterMetricFamily(
            "strowger_limit_waited_requests",
            "Requests that have waited for room in a limit: admitted, refused, or gone.",
            labels=["limit", "outcome"],
        )
        for (limit, outcome), count in self._limits.queue.ended.items():
            waited.add_metric([limit, outcome], count)
        yield waited
