"""Metrics of the identity providers, in each process that serves."""

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

if TYPE_CHECKING:
    from strowger_gateway.gateway.governance.identities.issuer_keys import KnownIssuers


class IssuerCollector(Collector):
    """Whether the keys of each provider could be fetched last, and how often that was tried."""

    def __init__(self, issuers: "Callable[[], KnownIssuers | None]") -> None:
        self._issuers = issuers

    def collect(self) -> Iterable[Metric]:
        issuers = self._issuers()
        if issuers is None:
            return
        up = GaugeMetricFamily(
            "strowger_identity_provider_up",
            "1 if the keys of the identity provider could be fetched last, in every process.",
            labels=("issuer",),
        )
        fetches = CounterMetricFamily(
            "strowger_identity_provider_fetches",
            "Fetches of the keys of an identity provider.",
            labels=("issuer", "outcome"),
        )
        for one in issuers.keys:
            name = one.settings.name
            up.add_metric((name,), one.current is not None and not one.problem)
            for outcome, count in one.fetches.items():
                fetches.add_metric((name, outcome), count)
        yield up
        yield fetches
