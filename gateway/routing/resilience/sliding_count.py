"""A count over the last seconds, in ten slices, at a constant cost an event."""

_SLICES = 10


class SlidingCount:
    """How often something happened within the last `window_s` seconds (to a tenth of that).

    current: of the slice that is over `over_at`. Who counts at every request does what `add` does
    without the call.
    """

    __slots__ = ("_counts", "_last", "_over", "_past", "_slice_s", "current", "over_at")

    def __init__(self, window_s: float) -> None:
        self._slice_s = window_s / _SLICES
        self.clear()

    def clear(self) -> None:
        self._counts = [0] * _SLICES
        self._past = self.current = self._over = 0
        self._last = 0
        self.over_at = float("-inf")

    @property
    def total(self) -> int:
        """The count as of the last time that was told."""
        return self._past + self.current

    @property
    def ever(self) -> int:
        """The count since `clear`, with what has left the window."""
        return self._over + self.current

    def add(self, now: float) -> None:
        if now >= self.over_at:
            self.advance(now)
        self.current += 1

    def at(self, now: float) -> int:
        """The count as of `now`; times must not go backwards."""
        if now >= self.over_at:
            self.advance(now)
        return self._past + self.current

    def advance(self, now: float) -> None:
        """The current slice is over; those that are too long ago are counted no more."""
        current = int(now / self._slice_s)
        if current > self._last:
            self._counts[self._last % _SLICES] = self.current
            self._past += self.current
            self._over += self.current
            self.current = 0
            for step in range(min(current - self._last, _SLICES)):
                spot = (self._last + 1 + step) % _SLICES
                self._past -= self._counts[spot]
                self._counts[spot] = 0
            self._last = current
        self.over_at = (self._last + 1) * self._slice_s
