"""Metrics of end users: how many have accounts of their own, and requests that have none."""

from collections.abc import Iterable

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from strowger_gateway.gateway.governance.end_users.end_users import EndUserFinder


class EndUserCollector(Collector):
    """Of one process. The end users themselves are in no label: there are too many."""

    def __init__(self, finder: EndUserFinder) -> None:
        self._finder = finder

    def collect(self) -> Iterable[Metric]:
        yield GaugeMetricFamily(
            "strowger_end_users",
            "End users with accounts of their own, in each process that has served them.",
            value=len(self._finder.table),
        )
        family = CounterMetricFamily(
            "strowger_end_user_shared_requests",
            "Requests held to an account that end users share: they name none, or there are more "
            "than end_users.max_per_key.",
            labels=["reason"],
        )
        family.add_metric(["missing"], self._finder.counts.missing)
        family.add_metric(["full"], self._finder.counts.shared)
        yield family
