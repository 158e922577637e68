"""Whether a backend may be asked now: a circuit breaker by failure rate, and rests after a 429.

closed -> open when, within the window, at least `min_requests` were tried and the share that
failed reached `failure_rate`; open -> half-open after a cool-down, which lets one probe through;
the probe's first content, or its success, closes, its failure opens again for twice as long. A
rest is a lower bound that the backend itself named; it never counts as a failure, and neither
shortens the other. A 429 that names none spares the backend for a while of our choosing: it may be
asked, but others are asked before it. Times are seconds of a monotonic clock, passed in.

Breakers of the same backend in several processes act as one: what opens, closes or rests one is
told to the others (`health`, `hear`), and a lease sees to it that one process probes at a time.
"""

from collections.abc import Callable
from typing import Literal, Protocol

from msgspec import Struct

from gateway.config.model import Breaker as BreakerRule
from gateway.routing.window import SlidingCount

State = Literal["closed", "open", "half_open"]

SPARE_S, MAX_SPARE_S = 1.0, 60.0
"""After a 429 without retry-after; doubled by the next one, unless a success came between."""

_DOUBLINGS = 6
"""From the one to beyond the other."""


class Health(Struct, frozen=True, kw_only=True):
    """What a breaker tells the others of its backend. All are times of the one clock, seconds.

    at: when it opened or closed for the last time; of two, the later one is true.
    spare_until: absent from the words of replicas that know of none.
    """

    at: float
    open_until: float | None
    cooldown_s: float
    rest_until: float
    last_failure: float
    spare_until: float = float("-inf")


class Lease(Protocol):
    """The right to probe one backend, which one process has at a time."""

    def free(self) -> bool:
        """Whether `take` would succeed now."""
        ...

    def take(self) -> bool:
        """Whether it is this process's now."""
        ...

    def give(self) -> None: ...


class _Alone:
    """The lease where there is no other process."""

    def free(self) -> bool:
        return True

    def take(self) -> bool:
        return True

    def give(self) -> None:
        """Nobody waits for it."""


ALONE: Lease = _Alone()


def _nobody() -> None:
    """Who hears of changes where there is no other process."""


class Breaker:
    """The mutable state of one backend's health. Not thread-safe; one event loop owns it.

    open_until: `None` while requests pass without any of them being a probe.
    changed: called when `health` tells something new. lease: to probe.
    spares: how often it was spared since the last success. tried: what ended within the window;
    all that a success is to a breaker that is closed and spares nobody is one more of them.
    trouble_until: after that it is as good a choice as any; infinity while it is not closed, and
    then `welcomes` tells.
    """

    __slots__ = (
        "_at",
        "_cooldown",
        "_failed",
        "_probing",
        "_rest_until",
        "_spare_until",
        "changed",
        "last_failure",
        "lease",
        "open_until",
        "rule",
        "spares",
        "tried",
        "trouble_until",
    )

    def __init__(self, rule: BreakerRule) -> None:
        self.rule = rule
        self.last_failure = float("-inf")
        self.tried = SlidingCount(rule.window_s)
        self._failed = SlidingCount(rule.window_s)
        self.open_until: float | None = None
        self._cooldown = rule.cooldown_s
        self._probing = False
        self._rest_until = float("-inf")
        self._spare_until = float("-inf")
        self.spares = 0
        self._at = self.trouble_until = float("-inf")
        self.changed: Callable[[], None] = _nobody
        self.lease = ALONE

    def health(self) -> Health:
        return Health(
            at=self._at,
            open_until=self.open_until,
            cooldown_s=self._cooldown,
            rest_until=self._rest_until,
            last_failure=self.last_failure,
            spare_until=self._spare_until,
        )

    def hear(self, health: Health) -> None:
        """What another process knows of the same backend."""
        self._rest_until = max(self._rest_until, health.rest_until)
        self._spare_until = max(self._spare_until, health.spare_until)
        self.last_failure = max(self.last_failure, health.last_failure)
        if health.at > self._at:
            self._at = health.at
            self.open_until = health.open_until
            self._cooldown = health.cooldown_s
            if health.open_until is None:
                self.tried.clear()
                self._failed.clear()
        self._sum_up()

    def state(self, now: float) -> State:
        if self.open_until is None:
            return "closed"
        return "half_open" if now >= self.open_until else "open"

    def allows(self, now: float) -> bool:
        """Whether a request may be sent: healthy and rested, or due for its one probe."""
        if now < self._rest_until:
            return False
        if self.open_until is None:
            return True
        return now >= self.open_until and not self._probing and self.lease.free()

    def welcomes(self, now: float) -> bool:
        """Whether it is as good a choice as any: allowed, and not spared."""
        return now >= self._spare_until and self.allows(now)

    def spared_for(self, now: float) -> float:
        """Seconds for which others are asked before it."""
        return max(0.0, self._spare_until - now)

    def available_in(self, now: float) -> float:
        """Seconds until `allows` can turn true by itself; 0 while it is true."""
        until = max(self._rest_until, self.open_until or float("-inf"))
        return max(0.0, until - now)

    def resting(self, now: float) -> bool:
        return now < self._rest_until

    @property
    def probing(self) -> bool:
        """Here or elsewhere."""
        return self._probing or not self.lease.free()

    def begin(self, now: float) -> bool:
        """A request is about to be sent. True: it is the probe; hand that back when it ends."""
        if self.open_until is None or self._probing or not self.lease.take():
            return False
        self._probing = True
        return True

    def succeed(self, now: float, *, probe: bool) -> None:
        if probe:
            self._close(now)
        self.spares = 0
        self.tried.add(now)

    def prove(self, now: float) -> None:
        """The probe has shown content: it closes, though what was the probe goes on."""
        self.spares = 0
        self._close(now)

    def fail(self, now: float, *, probe: bool) -> None:
        self.last_failure = now
        if probe:
            self._cooldown = min(self._cooldown * 2, self.rule.max_cooldown_s)
            self._open(now, max(now + self._cooldown, self.open_until or 0.0))
            self._end_probe()
            return
        self.tried.add(now)
        self._failed.add(now)
        tried, failed = self.tried.total, self._failed.at(now)
        if (
            self.open_until is None
            and tried >= self.rule.min_requests
            and failed >= self.rule.failure_rate * tried
        ):
            self._open(now, now + self._cooldown)

    def rest(self, now: float, seconds: float, *, probe: bool) -> None:
        """The backend asked for a pause (429, or 503, with retry-after); a longer one is kept."""
        if probe:
            self._close(now)
        if now + seconds > self._rest_until:
            self._rest_until = now + seconds
            self._sum_up()
            self.changed()

    def spare(self, now: float, draw: float, *, probe: bool) -> None:
        """It said 429 and not for how long. draw: uniform in [0, 1).

        What comes while it is spared was sent before, or by want of others: that is no news.
        """
        if probe:
            self._close(now)
        if now >= self._spare_until:
            seconds = min(SPARE_S * 2.0**self.spares, MAX_SPARE_S)
            self.spares = min(self.spares + 1, _DOUBLINGS)
            self._spare_until = now + seconds * (0.5 + draw / 2)
            self._sum_up()
            self.changed()

    def abandon(self, *, probe: bool) -> None:
        """The request ended for the caller's reasons; it says nothing about the backend."""
        if probe:
            self._end_probe()

    def renew(self, now: float) -> None:
        """The backend was started anew: what it did before says nothing about it."""
        self._rest_until = self._spare_until = float("-inf")
        self.spares = 0
        self._close(now)

    def _open(self, now: float, until: float) -> None:
        self._at, self.open_until = now, until
        self._sum_up()
        self.changed()

    def _close(self, now: float) -> None:
        self._at, self.open_until = now, None
        self._cooldown = self.rule.cooldown_s
        self.tried.clear()
        self._failed.clear()
        self._sum_up()
        self.changed()
        self._end_probe()

    def _sum_up(self) -> None:
        closed = self.open_until is None
        self.trouble_until = max(self._rest_until, self._spare_until) if closed else float("inf")

    def _end_probe(self) -> None:
        self._probing = False
        self.lease.give()
