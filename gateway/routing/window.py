"""A count over the last seconds, in ten slices, at a constant cost an event."""

_SLICES = 10


class SlidingCount:
    """How often something happened within the last `window_s` seconds (to a tenth of that)."""

    __slots__ = ("_counts", "_last", "_slice_s", "total")

    def __init__(self, window_s: float) -> None:
        self._slice_s = window_s / _SLICES
        self.clear()

    def clear(self) -> None:
        self._counts = [0] * _SLICES
        self._last = 0
        self.total = 0

    def add(self, now: float) -> None:
        if int(now / self._slice_s) != self._last:
            self.at(now)
        self._counts[self._last % _SLICES] += 1
        self.total += 1

    def at(self, now: float) -> int:
        """The count as of `now`; times must not go backwards."""
        current = int(now / self._slice_s)
        if current == self._last:
            return self.total
        for step in range(min(current - self._last, _SLICES)):
            spot = (self._last + 1 + step) % _SLICES
            self.total -= self._counts[spot]
            self._counts[spot] = 0
        self._last = max(self._last, current)
        return self.total
