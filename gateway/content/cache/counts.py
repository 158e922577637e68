"""What the cache of one process does, as metrics."""

from collections import Counter
from collections.abc import Callable, Iterable
from typing import Literal

from msgspec import Struct
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

Outcome = Literal["hit", "miss", "bypass"]


class StoreSize(Struct, frozen=True, kw_only=True):
    """Of what one process keeps. failed: uses of the store that failed."""

    bytes: int = 0
    entries: int = 0
    evicted: int = 0
    failed: int = 0


class CacheCounts:
    """requests: by the model's name and outcome. shared: hits that waited for another request."""

    def __init__(self) -> None:
        self.requests: Counter[tuple[str, Outcome]] = Counter()
        self.shared: Counter[str] = Counter()


class CacheCollector(Collector):
    """The metrics of the response cache."""

    def __init__(self, counts: CacheCounts, size: Callable[[], StoreSize]) -> None:
        self._counts = counts
        self._size = size

    def collect(self) -> Iterable[Metric]:
        requests = CounterMetricFamily(
            "strowger_cache_requests",
            "Requests that may be answered from the cache, by outcome (hit, miss, bypass).",
            labels=["model", "outcome"],
        )
        for labels, count in self._counts.requests.items():
            requests.add_metric(list(labels), count)
        yield requests
        shared = CounterMetricFamily(
            "strowger_cache_shared",
            "Hits that waited for an equal request, whose answer they share.",
            labels=["model"],
        )
        for model, count in self._counts.shared.items():
            shared.add_metric([model], count)
        yield shared
        size = self._size()
        yield GaugeMetricFamily(
            "strowger_cache_bytes", "Bytes of answers in memory.", value=size.bytes
        )
        yield GaugeMetricFamily("strowger_cache_entries", "Answers in memory.", value=size.entries)
        yield CounterMetricFamily(
            "strowger_cache_evicted", "Answers that left the memory early.", value=size.evicted
        )
        yield CounterMetricFamily(
            "strowger_cache_failures", "Uses of Redis that failed.", value=size.failed
        )
