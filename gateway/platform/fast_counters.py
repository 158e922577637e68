"""Counters and histograms without locks: used for what every request updates.

Those of prometheus_client take a lock and several calls per update, together a tenth of a
request's cost. These belong to one thread; the library still collects and renders them.
https://prometheus.github.io/client_python/collector/custom/
"""

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from itertools import accumulate

from prometheus_client import CollectorRegistry
from prometheus_client.core import CounterMetricFamily, Exemplar, HistogramMetricFamily
from prometheus_client.registry import Collector

Labels = tuple[str | int, ...]
"""Values in the order of the metric's label names; numbers are rendered as decimal text."""


class FastCounter(Collector):
    """A counter. name: without `_total`."""

    def __init__(
        self, name: str, meaning: str, labels: Sequence[str], *, registry: CollectorRegistry
    ) -> None:
        self._about = name, meaning, tuple(labels)
        self._values: dict[Labels, float] = {}
        registry.register(self)

    def add(self, labels: Labels, amount: float = 1.0) -> None:
        """amount: at least 0."""
        try:
            self._values[labels] += amount
        except KeyError:
            self._values[labels] = 0.0 + amount

    def describe(self) -> Iterator[CounterMetricFamily]:
        name, meaning, labels = self._about
        yield CounterMetricFamily(name, meaning, labels=labels)

    def collect(self) -> Iterator[CounterMetricFamily]:
        for family in self.describe():
            for labels, value in self._values.items():
                family.add_metric([str(label) for label in labels], value)
            yield family


class FastHistogram(Collector):
    """A histogram of durations, which are observed in milliseconds and rendered in seconds.

    buckets: upper bounds in seconds, ascending; a bucket without a bound follows the last.
    """

    def __init__(
        self,
        name: str,
        meaning: str,
        labels: Sequence[str],
        *,
        buckets: Sequence[float],
        registry: CollectorRegistry,
    ) -> None:
        self._about = name, meaning, tuple(labels)
        self._bounds = tuple(float(bound) for bound in buckets)
        self._bounds_ms = tuple(bound * 1e3 for bound in buckets)
        self._counts: dict[Labels, list[int]] = {}
        self._sums_ms: dict[Labels, float] = {}
        self._examples: dict[Labels, dict[int, Exemplar]] = {}
        registry.register(self)

    def observe(self, labels: Labels, many_ms: Sequence[float]) -> None:
        """Observe durations, in milliseconds."""
        if not many_ms:
            return
        counts, bounds_ms = self._counts.get(labels), self._bounds_ms
        if counts is None:
            counts = self._counts[labels] = [0] * (len(bounds_ms) + 1)
            self._sums_ms[labels] = 0.0
        for ms in many_ms:
            counts[bisect_left(bounds_ms, ms)] += 1
        self._sums_ms[labels] += sum(many_ms)

    def exemplify(self, labels: Labels, ms: float, trace_id: str, time: float) -> None:
        """Name a trace of an observed duration, the newest of its bucket. time: Unix seconds.

        https://github.com/prometheus/OpenMetrics/blob/main/specification/OpenMetrics.md#exemplars
        """
        found = self._examples.setdefault(labels, {})
        example = Exemplar({"trace_id": trace_id}, ms / 1e3, time)
        found[bisect_left(self._bounds_ms, ms)] = example

    def describe(self) -> Iterator[HistogramMetricFamily]:
        name, meaning, labels = self._about
        yield HistogramMetricFamily(name, meaning, labels=labels)

    def collect(self) -> Iterator[HistogramMetricFamily]:
        bounds = [*map(str, self._bounds), "+Inf"]
        for family in self.describe():
            for labels, counts in self._counts.items():
                examples = self._examples.get(labels, {})
                buckets: list[tuple[str, float] | tuple[str, float, Exemplar]] = []
                for place, count in enumerate(accumulate(counts)):
                    bound, example = bounds[place], examples.get(place)
                    buckets.append((bound, count) if example is None else (bound, count, example))
                sum_s = self._sums_ms[labels] / 1e3
                family.add_metric([str(label) for label in labels], buckets, sum_s)
            yield family
