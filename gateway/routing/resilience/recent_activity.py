"""What a backend has done recently: counts in a sliding window, latencies, requests in flight."""

import math

TAU_S = 15.0
"""Time constant of the average: after so long a measured latency counts for 1/e of it."""

OFTEN_S = 0.001
"""Latencies that are not worse than the average count once per this interval."""

NOTHING = -1.0
"""The average while nothing has been measured: less than any latency."""

_SLICES = 10
"""Of a SlidingCount's window."""


class SlidingCount:
    """The number of events within the last `window_s` seconds, to a tenth of the window.

    current: events in the current slice, which ends at `over_at`. Both are public so that callers
    on the request path can inline `add`: a call takes longer than the addition itself.
    """

    __slots__ = ("_counts", "_last", "_over", "_past", "_slice_s", "current", "over_at")

    def __init__(self, window_s: float) -> None:
        self._slice_s = window_s / _SLICES
        self._over = self.current = 0
        self.clear()

    def clear(self) -> None:
        """Empty the window; `ever` stays."""
        self._counts = [0] * _SLICES
        self._over += self.current
        self._past = self.current = 0
        self._last = 0
        self.over_at = float("-inf")

    @property
    def total(self) -> int:
        """The count as of the last call with a time."""
        return self._past + self.current

    @property
    def ever(self) -> int:
        """The count since the beginning, including events that have left the window."""
        return self._over + self.current

    def since(self, then: float, now: float) -> int:
        """An upper bound of the events from `then` to `now`: of all slices that overlap."""
        if now >= self.over_at:
            self.advance(now)
        slices = min(self._last - int(then / self._slice_s), _SLICES - 1)
        past = (self._counts[(self._last - step) % _SLICES] for step in range(1, slices + 1))
        return self.current + sum(past)

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


class PeakAverage:
    """A moving average of latencies that rises immediately and falls slowly.

    A latency above the average replaces it; one below lowers it by the time since the last change.
    The average of an idle backend decreases towards 0, so that it is tried again. The cost function
    of Finagle's balancer:
    https://twitter.github.io/finagle/guide/Clients.html#power-of-two-choices-p2c-peak-ewma

    value: seconds, as of the last change; below 0 while nothing has been measured.
    due:   when the next latency that is not worse counts. Both are public so that callers on the
           request path can inline the first test of `add`; under load it mostly fails.
    """

    __slots__ = ("_at", "due", "value")

    def __init__(self) -> None:
        self.value = NOTHING
        self._at = 0.0
        self.due = float("-inf")

    def add(self, seconds: float, now: float) -> None:
        """Add a latency of at least 0 s; within `OFTEN_S` only the first and the worst count."""
        if seconds <= self.value:
            if now < self.due:
                return
            # `_kept` inlined; `now` is past `due`, so the age is above 0.
            kept = math.exp((self._at - now) / TAU_S)
            value = self.value * kept
            if seconds <= value:
                seconds = value + seconds * (1.0 - kept)
        self.value, self._at, self.due = seconds, now, now + OFTEN_S

    def at_least(self, seconds: float, now: float) -> None:
        """Add the time of an attempt that was cut: a lower bound, it can only raise the average."""
        value = self.at(now)
        if value is None or seconds > value:
            self.add(seconds, now)

    def at(self, now: float) -> float | None:
        """Seconds as of `now`; `None` while nothing has been measured."""
        return None if self.value == NOTHING else self.value * _kept(now - self._at)

    @property
    def measured(self) -> float | None:
        """Seconds as of the last measurement, to display: idle time does not decrease it."""
        return None if self.value == NOTHING else self.value


def _kept(age: float) -> float:
    """The weight that remains after `age` seconds; 1 if the clock went backwards."""
    return math.exp(-max(age, 0.0) / TAU_S)


class Load:
    """One backend's attempts in flight, and the latency of earlier ones.

    in_flight:       attempts of this process.
    other_processes: attempts of other processes, as last received from them.
    first_content:   latency to the first content of a stream.
    answer:          latency to the end of an answer that is not streamed.
    """

    __slots__ = ("answer", "first_content", "in_flight", "other_processes")

    def __init__(self) -> None:
        self.in_flight = 0
        self.other_processes = 0
        self.first_content = PeakAverage()
        self.answer = PeakAverage()

    @property
    def busy(self) -> int:
        """Attempts in flight, in all processes."""
        return self.in_flight + self.other_processes

    def latency(self, now: float, *, stream: bool) -> float | None:
        """Seconds for requests of this kind; those of the other kind if its own are unknown."""
        own, other = (
            (self.first_content, self.answer) if stream else (self.answer, self.first_content)
        )
        measured = own.at(now)
        return other.at(now) if measured is None else measured
