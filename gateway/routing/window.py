"""A count over the last seconds, in ten slices, at a constant cost an event."""

_SLICES = 10


class SlidingCount:
    """How often something happened within the last `window_s` seconds (to a tenth of that)."""

    __slots__ = ("_counts", "_last", "_over_at", "_slice_s", "total")

    def __init__(self, window_s: float) -> None:
        self._slice_s = window_s / _SLICES
        self.clear()

    def clear(self) -> None:
        self._counts = [0] * _SLICES
        self._last = 0
        self._over_at = float("-inf")
        self.total = 0

    def add(self, now: float) -> None:
        if now >= self._over_at:
            self._go_on(now)
        self._counts[self._last % _SLICES] += 1
        self.total += 1

    def at(self, now: float) -> int:
        """The count as of `now`; times must not go backwards."""
        if now >= self._over_at:
            self._go_on(now)
        return self.total

    def _go_on(self, now: float) -> None:
        """The slices that are over since the last time are counted no more."""
        current = int(now / self._slice_s)
        for step in range(min(current - self._last, _SLICES)):
            spot = (self._last + 1 + step) % _SLICES
            self.total -= self._counts[spot]
            self._counts[spot] = 0
        self._last = max(self._last, current)
        self._over_at = (self._last + 1) * self._slice_s
