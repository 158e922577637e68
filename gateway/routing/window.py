"""A count over the last seconds, in ten slices, at a constant cost an event."""

_SLICES = 10


class SlidingCount:
    """How often something happened within the last `window_s` seconds (to a tenth of that)."""

    __slots__ = ("_counts", "_current", "_last", "_over_at", "_past", "_slice_s")

    def __init__(self, window_s: float) -> None:
        self._slice_s = window_s / _SLICES
        self.clear()

    def clear(self) -> None:
        self._counts = [0] * _SLICES
        self._past = self._current = 0
        self._last = 0
        self._over_at = float("-inf")

    @property
    def total(self) -> int:
        """The count as of the last time that was told."""
        return self._past + self._current

    def add(self, now: float) -> None:
        if now >= self._over_at:
            self._go_on(now)
        self._current += 1

    def at(self, now: float) -> int:
        """The count as of `now`; times must not go backwards."""
        if now >= self._over_at:
            self._go_on(now)
        return self._past + self._current

    def _go_on(self, now: float) -> None:
        """The current slice is over; those that are too long ago are counted no more."""
        current = int(now / self._slice_s)
        if current > self._last:
            self._counts[self._last % _SLICES] = self._current
            self._past += self._current
            self._current = 0
            for step in range(min(current - self._last, _SLICES)):
                spot = (self._last + 1 + step) % _SLICES
                self._past -= self._counts[spot]
                self._counts[spot] = 0
            self._last = current
        self._over_at = (self._last + 1) * self._slice_s
