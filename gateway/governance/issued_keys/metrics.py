"""Metrics of the issued keys, in the leader."""

from collections.abc import Iterable

from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from strowger_gateway.gateway.governance.issued_keys.sync import KeySync


class IssuedKeyCollector(Collector):
    """Whether the list is up to date, and how many keys it has."""

    def __init__(self, sync: KeySync) -> None:
        self._sync = sync

    def collect(self) -> Iterable[Metric]:
        if not self._sync.wanted:
            return
        latest = self._sync.latest
        yield GaugeMetricFamily(
            "strowger_issued_keys",
            "Issued keys that are not revoked, as last read from the store.",
            value=0 if latest is None else len(latest.keys),
        )
        yield GaugeMetricFamily(
            "strowger_issued_keys_current",
            "1 while issued keys are read from the store, 0 while the last known list applies.",
            value=self._sync.read_at > 0 and not self._sync.unavailable,
        )
        yield GaugeMetricFamily(
            "strowger_issued_keys_read_timestamp_seconds",
            "Time of the last read of issued keys, Unix seconds; 0 before the first.",
            value=self._sync.read_at,
        )
