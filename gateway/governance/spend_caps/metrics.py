"""The spend caps as metrics of the leader."""

from collections.abc import Callable, Iterable, Sequence

from prometheus_client.metrics_core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from strowger_gateway.gateway.governance.spend_caps.standing import CapStanding


class CapCollector(Collector):
    """found: returns the caps of the configuration in effect."""

    def __init__(self, found: Callable[[], Sequence[CapStanding]]) -> None:
        self._found = found

    def collect(self) -> Iterable[Metric]:
        names = ("provider", "models", "per")
        limit = GaugeMetricFamily(
            "strowger_spend_cap_usd", "US dollars that a provider may cost.", labels=names
        )
        spent = GaugeMetricFamily(
            "strowger_spend_cap_spent_usd",
            "US dollars of it that are spent in the current period, in all gateways.",
            labels=names,
        )
        for one in self._found():
            labels = one.provider, ", ".join(one.models), one.per
            limit.add_metric(labels, one.usd)
            spent.add_metric(labels, one.spent)
        yield from (limit, spent)
