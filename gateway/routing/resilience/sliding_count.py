"""Count events within the last seconds, in ten slices, at a constant cost per event."""

_SLICES = 10


class SlidingCount:
    """The number of events within the last `window_s` seconds, to a tenth of the window.

    current: events in the current slice, which ends at `over_at`. Both are public so that callers
    on the request path can inline `add`: a call takes longer than the addition itself.
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
        """The count as of the last call with a time."""
        return self._past + self.current

    @property
    def ever(self) -> int:
        """The count since `clear`, including events that have left the window."""
        return self._over + self.current

    def add(self, now: float) -> None:
        """Count one event at `now`; times must not go backwards."""
        if now >= self.over_at:
            self.advance(now)
        self.current += 1

    def at(self, now: float) -> int:
        """The count as of `now`; times must not go backwards."""
        if now >= self.over_at:
            self.advance(now)
        return self._past + self.current

    def advance(self, now: float) -> None:
        """Start a new slice, and drop the slices that have left the window."""
        current = int(now / self._slice_s)
        if current > self._last:
            self._counts[self._last % _SLICES] = self.current
            self._past += self.current
            self._over += self.current
            self.current = 0
            for step in range(min(current - self._last, _SLICES)):
                index = (self._last + 1 + step) % _SLICES
                self._past -= self._counts[index]
                self._counts[index] = 0
            self._last = current
        self.over_at = (self._last + 1) * self._slice_s
