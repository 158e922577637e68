"""How busy and how fast one backend is right now: what the policies weigh."""

import math

TAU_S = 15.0
"""After so long, a latency that was measured counts for 1/e of the average."""


OFTEN_S = 0.001
"""More often than that, latencies that are no news do not count."""

NOTHING = -1.0


class PeakAverage:
    """A moving average of latencies that believes bad news at once and good news slowly.

    A latency above the average becomes the average; one below pulls it down by its age, and a
    silent backend's sinks towards 0, so that it is tried again. The cost function of Finagle's
    balancer: https://twitter.github.io/finagle/guide/Clients.html#power-of-two-choices-p2c-peak-ewma

    value: seconds, as it was when it changed for the last time; below 0 while nothing was measured.
    due: when the next latency counts that is no worse. Who measures at every request asks for
    these two before the call.
    """

    __slots__ = ("_at", "due", "value")

    def __init__(self) -> None:
        self.value = NOTHING
        self._at = 0.0
        self.due = float("-inf")

    def add(self, seconds: float, now: float) -> None:
        """seconds: at least 0. Of those within a millisecond, the first counts and the worst."""
        if seconds <= self.value:
            if now < self.due:
                return
            kept = _kept(now - self._at)
            value = self.value * kept
            if seconds <= value:
                seconds = value + seconds * (1.0 - kept)
        self.value, self._at, self.due = seconds, now, now + OFTEN_S

    def at_least(self, seconds: float, now: float) -> None:
        """A latency that was not waited for to the end: it can only raise the average."""
        value = self.at(now)
        if value is None or seconds > value:
            self.add(seconds, now)

    def at(self, now: float) -> float | None:
        """Seconds as of `now`; `None` while nothing was measured."""
        return None if self.value == NOTHING else self.value * _kept(now - self._at)

    @property
    def measured(self) -> float | None:
        """Seconds as of the last measurement, for people: silence says nothing about a backend."""
        return None if self.value == NOTHING else self.value


def _kept(age: float) -> float:
    """Nothing is forgotten of a time that went backwards."""
    return math.exp(-max(age, 0.0) / TAU_S)


class Load:
    """One backend's attempts under way, and how long those before them took.

    in_flight: attempts of this process. elsewhere: those of other processes, as last heard.
    first:     to the first content of a stream. whole: to the end of an answer in one piece.
    """

    __slots__ = ("answer", "first_content", "in_flight", "other_processes")

    def __init__(self) -> None:
        self.in_flight = 0
        self.other_processes = 0
        self.first_content = PeakAverage()
        self.answer = PeakAverage()

    @property
    def busy(self) -> int:
        return self.in_flight + self.other_processes

    def latency(self, now: float, *, stream: bool) -> float | None:
        """Seconds that matter to such a request; the other kind's where its own is unknown."""
        own, other = (
            (self.first_content, self.answer) if stream else (self.answer, self.first_content)
        )
        measured = own.at(now)
        return other.at(now) if measured is None else measured
