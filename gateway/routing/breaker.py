"""Whether a backend may be asked now: a circuit breaker by failure rate, and rests after a 429.

closed -> open when, within the window, at least `min_requests` were tried and the share that
failed reached `failure_rate`; open -> half-open after a cool-down, which lets one probe through;
the probe's success closes, its failure opens again for twice as long. A rest is a lower bound
that the backend itself named; it never counts as a failure, and neither shortens the other.
Times are seconds of a monotonic clock, passed in.
"""

from typing import Literal

from gateway.config.model import Breaker as BreakerRule
from gateway.routing.window import SlidingCount

State = Literal["closed", "open", "half_open"]


class Breaker:
    """The mutable state of one backend's health. Not thread-safe; one event loop owns it."""

    __slots__ = (
        "_cooldown",
        "_failed",
        "_open_until",
        "_probing",
        "_rest_until",
        "_tried",
        "last_failure",
        "rule",
    )

    def __init__(self, rule: BreakerRule) -> None:
        self.rule = rule
        self.last_failure = float("-inf")
        self._tried = SlidingCount(rule.window_s)
        self._failed = SlidingCount(rule.window_s)
        self._open_until: float | None = None
        self._cooldown = rule.cooldown_s
        self._probing = False
        self._rest_until = float("-inf")

    def state(self, now: float) -> State:
        if self._open_until is None:
            return "closed"
        return "half_open" if now >= self._open_until else "open"

    def allows(self, now: float) -> bool:
        """Whether a request may be sent: healthy and rested, or due for its one probe."""
        if now < self._rest_until:
            return False
        if self._open_until is None:
            return True
        return now >= self._open_until and not self._probing

    def available_in(self, now: float) -> float:
        """Seconds until `allows` can turn true by itself; 0 while it is true."""
        until = max(self._rest_until, self._open_until or float("-inf"))
        return max(0.0, until - now)

    def resting(self, now: float) -> bool:
        return now < self._rest_until

    @property
    def probing(self) -> bool:
        return self._probing

    def begin(self, now: float) -> bool:
        """A request is about to be sent. True: it is the probe; hand that back when it ends."""
        if self._open_until is None or self._probing:
            return False
        self._probing = True
        return True

    def succeed(self, now: float, *, probe: bool) -> None:
        if probe:
            self._close()
        self._tried.add(now)

    def fail(self, now: float, *, probe: bool) -> None:
        self.last_failure = now
        if probe:
            self._probing = False
            self._cooldown = min(self._cooldown * 2, self.rule.max_cooldown_s)
            self._open_until = max(now + self._cooldown, self._open_until or 0.0)
            return
        self._tried.add(now)
        self._failed.add(now)
        tried, failed = self._tried.total, self._failed.at(now)
        if (
            self._open_until is None
            and tried >= self.rule.min_requests
            and failed >= self.rule.failure_rate * tried
        ):
            self._open_until = now + self._cooldown

    def rest(self, now: float, seconds: float, *, probe: bool) -> None:
        """The backend asked for a pause (429, or 503, with retry-after); a longer one is kept."""
        if probe:
            self._close()
        self._rest_until = max(self._rest_until, now + seconds)

    def abandon(self, *, probe: bool) -> None:
        """The request ended for the caller's reasons; it says nothing about the backend."""
        if probe:
            self._probing = False

    def renew(self) -> None:
        """The backend was started anew: what it did before says nothing about it."""
        self._close()
        self._rest_until = float("-inf")

    def _close(self) -> None:
        self._probing = False
        self._open_until = None
        self._cooldown = self.rule.cooldown_s
        self._tried.clear()
        self._failed.clear()
