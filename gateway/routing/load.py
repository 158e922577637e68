"""How busy and how fast one backend is right now: what the policies weigh."""

import math

TAU_S = 15.0
"""After so long, a latency that was measured counts for 1/e of the average."""


class PeakAverage:
    """A moving average of latencies that believes bad news at once and good news slowly.

    A latency above the average becomes the average; one below pulls it down by its age, and a
    silent backend's sinks towards 0, so that it is tried again. The cost function of Finagle's
    balancer: https://twitter.github.io/finagle/guide/Clients.html#power-of-two-choices-p2c-peak-ewma
    """

    __slots__ = ("_at", "_value")

    def __init__(self) -> None:
        self._value: float | None = None
        self._at = 0.0

    def add(self, seconds: float, now: float) -> None:
        value = self._value
        if value is not None:
            age = now - self._at
            kept = 1.0 - age / TAU_S if 0.0 <= age < 0.001 else _kept(age)
            value *= kept
            if seconds <= value:
                seconds = value + seconds * (1.0 - kept)
        self._value, self._at = seconds, now

    def at_least(self, seconds: float, now: float) -> None:
        """A latency that was not waited for to the end: it can only raise the average."""
        value = self.at(now)
        if value is None or seconds > value:
            self.add(seconds, now)

    def at(self, now: float) -> float | None:
        """Seconds as of `now`; `None` while nothing was measured."""
        return None if self._value is None else self._sunk(now)

    @property
    def measured(self) -> float | None:
        """Seconds as of the last measurement, for people: silence says nothing about a backend."""
        return self._value

    def _sunk(self, now: float) -> float:
        assert self._value is not None
        return self._value * _kept(now - self._at)


def _kept(age: float) -> float:
    """Nothing is forgotten of a time that went backwards."""
    return math.exp(-max(age, 0.0) / TAU_S)


class Load:
    """One backend's attempts under way, and how long those before them took.

    in_flight: attempts of this process. elsewhere: those of other processes, as last heard.
    first:     to the first content of a stream. whole: to the end of an answer in one piece.
    """

    __slots__ = ("elsewhere", "first", "in_flight", "whole")

    def __init__(self) -> None:
        self.in_flight = 0
        self.elsewhere = 0
        self.first = PeakAverage()
        self.whole = PeakAverage()

    @property
    def busy(self) -> int:
        return self.in_flight + self.elsewhere

    def latency(self, now: float, *, stream: bool) -> float | None:
        """Seconds that matter to such a request; the other kind's where its own is unknown."""
        own, other = (self.first, self.whole) if stream else (self.whole, self.first)
        measured = own.at(now)
        return other.at(now) if measured is None else measured
