"""Store durations of many requests in few counts and estimate quantiles with 5 % accuracy.

The counts are of intervals that grow by a constant factor, so that two sketches are merged by
adding their counts, and the range has no upper limit. Masson, Rim and Lee: DDSketch (2019),
section 2.1, https://arxiv.org/abs/1908.10693
"""

from collections.abc import Mapping
from math import ceil, log

_GROWTH = 1.1
_PER_LOG = 1.0 / log(_GROWTH)
_LEAST_MS = 0.01
"""Shorter durations count as this long."""


class QuantileSketch:
    """Durations in milliseconds. Interval i is (1.1^(i-1), 1.1^i]."""

    __slots__ = ("counts",)

    def __init__(self, counts: Mapping[int, int] | None = None) -> None:
        self.counts: dict[int, int] = dict(counts or {})

    def add(self, ms: float) -> None:
        index = ceil(log(max(_LEAST_MS, ms)) * _PER_LOG)
        counts = self.counts
        counts[index] = counts.get(index, 0) + 1

    def merge(self, counts: Mapping[int, int]) -> None:
        own = self.counts
        for index, count in counts.items():
            own[index] = own.get(index, 0) + count

    @property
    def count(self) -> int:
        return sum(self.counts.values())

    def quantile(self, share: float) -> float | None:
        """The quantile `share` (0 to 1), in milliseconds; `None` if the sketch is empty."""
        wanted = share * (self.count - 1)
        seen = 0
        for index in sorted(self.counts):
            seen += self.counts[index]
            if seen > wanted:
                return 2.0 * _GROWTH**index / (_GROWTH + 1.0)
        return None
