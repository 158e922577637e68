"""Whether a backend may be asked now: a circuit breaker, and cooldowns after a 429.

closed -> open by Page's cumulative sum test: the evidence grows by 1 with each failure, shrinks by
failure_rate / (1 - failure_rate) with each success, and is never below 0. The breaker opens when
the evidence reaches `min_requests`, or a share of the requests in the window where that is more.
The sum drifts upwards only if more than `failure_rate` of the requests fail, and there is no best
moment to look at it: how often chance alone opens a breaker is known per request, not per look
(docs/adr/0020). Open -> half-open after a cooldown, which lets one probe through. Its first
content, or its success, closes; its failure opens again for twice as long, up to a maximum.

A rest is a lower bound that the backend itself named; it never counts as a failure, and neither
shortens the other. A 429 that names none spares the backend for a while of our choosing: it may be
asked, but others are asked before it. Times are seconds of a monotonic clock, passed in.

Where no other backend is left, a request may be sent to an open one (`last_chance_in`): a few at a
time. Its success closes the breaker; its failure changes nothing.

Breakers of the same backend in several processes act as one: what opens, closes or rests one is
told to the others (`health`, `hear`), and a lease sees to it that one process probes at a time.

E. S. Page, "Continuous inspection schemes", Biometrika 41 (1954), 100-115.
"""

from collections.abc import Callable
from typing import Literal, Protocol

from msgspec import Struct

from gateway.config.schema_failover import Breaker as BreakerRule
from gateway.routing.resilience.sliding_count import SlidingCount

State = Literal["closed", "open", "half_open"]

DEPRIORITISE_S, MAX_DEPRIORITISE_S = 1.0, 60.0
"""After a 429 without retry-after; doubled by the next one, unless a success came between."""

_DOUBLINGS = 6
"""From the one to beyond the other."""

MIN_FAILED_SHARE = 0.02
"""Of the requests in the window: the least evidence that opens a breaker where that is more than
`min_requests`. A backend that fails every request opens it after this part of the window."""

LAST_RESORT_EVERY_S, MAX_LAST_RESORTS = 0.1, 10
"""Between two requests to a backend whose breaker is open, and how many are under way at once, per
process, where no other backend is left for them."""

JITTER = 0.2
"""The part of a cooldown that is drawn, so that gateways do not probe in step."""


class BreakerSnapshot(Struct, frozen=True, kw_only=True):
    """What a breaker tells the others of its backend. All are times of the one clock, seconds.

    at: when it opened or closed for the last time; of two, the later one is true.
    spare_until: absent from the words of replicas that know of none.
    limited_until: as much of the rest as a 429 asked for; absent likewise.
    """

    at: float
    open_until: float | None
    cooldown_s: float
    retry_after_until: float
    last_failure: float
    deprioritised_until: float = float("-inf")
    rate_limited_until: float = float("-inf")


class Lease(Protocol):
    """The right to probe one backend, which one process has at a time."""

    def available(self) -> bool:
        """Whether `take` would succeed now."""
        ...

    def acquire(self) -> bool:
        """Whether it is this process's now."""
        ...

    def release(self) -> None: ...


class _UncontendedLease:
    """The lease where there is no other process."""

    def available(self) -> bool:
        return True

    def acquire(self) -> bool:
        return True

    def release(self) -> None:
        """Nobody waits for it."""


UNCONTENDED: Lease = _UncontendedLease()


def _no_listener() -> None:
    """Who hears of changes where there is no other process."""


class Breaker:
    """The mutable state of one backend's health. Not thread-safe; one event loop owns it.

    open_until: `None` while requests pass without any of them being a probe.
    changed: called when `health` tells something new. lease: to probe.
    spares: how often it was spared since the last success. tried: what ended within the window;
    all that a success is to a breaker that is closed and spares nobody is one more of them.
    waiting: requests that wait until it can be asked.
    trouble_until: after that it is as good a choice as any; infinity while it is not closed, and
    then `welcomes` tells.
    """

    __slots__ = (
        "_at",
        "_begun_at",
        "_cooldown",
        "_deprioritised_until",
        "_evidence",
        "_failed_at",
        "_probes",
        "_rate_limited_until",
        "_retry_after_until",
        "_seen",
        "changed",
        "deprioritised_count",
        "impaired_until",
        "last_failure",
        "lease",
        "open_until",
        "outcomes",
        "rule",
        "waiting",
    )

    def __init__(self, rule: BreakerRule) -> None:
        self.rule = rule
        self.last_failure = float("-inf")
        self.outcomes = SlidingCount(rule.window_s)
        self._evidence = 0.0
        self._seen = 0
        self._failed_at = self._begun_at = float("-inf")
        self.open_until: float | None = None
        self._cooldown = rule.cooldown_s
        self._probes = self.waiting = 0
        self._retry_after_until = self._rate_limited_until = float("-inf")
        self._deprioritised_until = float("-inf")
        self.deprioritised_count = 0
        self._at = self.impaired_until = float("-inf")
        self.changed: Callable[[], None] = _no_listener
        self.lease = UNCONTENDED

    def snapshot(self) -> BreakerSnapshot:
        return BreakerSnapshot(
            at=self._at,
            open_until=self.open_until,
            cooldown_s=self._cooldown,
            retry_after_until=self._retry_after_until,
            last_failure=self.last_failure,
            deprioritised_until=self._deprioritised_until,
            rate_limited_until=self._rate_limited_until,
        )

    def merge(self, health: BreakerSnapshot) -> None:
        """What another process knows of the same backend."""
        self._retry_after_until = max(self._retry_after_until, health.retry_after_until)
        self._deprioritised_until = max(self._deprioritised_until, health.deprioritised_until)
        self._rate_limited_until = max(self._rate_limited_until, health.rate_limited_until)
        self.last_failure = max(self.last_failure, health.last_failure)
        if health.at > self._at:
            self._at = health.at
            self.open_until = health.open_until
            self._cooldown = health.cooldown_s
            if health.open_until is None:
                self._clear_evidence()
        self._update_impaired_until()

    def state(self, now: float) -> State:
        if self.open_until is None:
            return "closed"
        return "half_open" if now >= self.open_until else "open"

    def is_available(self, now: float) -> bool:
        """Whether a request may be sent: healthy and rested, or due for its one probe."""
        if now < self._retry_after_until:
            return False
        if self.open_until is None:
            return True
        return now >= self.open_until and not self._probes and self.lease.available()

    def is_preferred(self, now: float) -> bool:
        """Whether it is as good a choice as any: allowed, and not spared."""
        return now >= self._deprioritised_until and self.is_available(now)

    def deprioritised_for(self, now: float) -> float:
        """Seconds for which others are asked before it."""
        return max(0.0, self._deprioritised_until - now)

    def available_in(self, now: float) -> float:
        """Seconds until `allows` can turn true by itself; 0 while it is true."""
        until = max(self._retry_after_until, self.open_until or float("-inf"))
        return max(0.0, until - now)

    def last_resort_in(self, now: float) -> float:
        """Seconds until a request that has no other backend left may be sent, open or not.

        0 where it may be sent now; infinity while as many as may be are under way.
        """
        wait = max(0.0, self._retry_after_until - now)
        if self.open_until is None or self.is_available(now):
            return wait
        if self._probes >= MAX_LAST_RESORTS:
            return float("inf")
        return max(wait, max(self._failed_at, self._begun_at) + LAST_RESORT_EVERY_S - now)

    def cooldown_left(self, now: float) -> float:
        """Seconds of the rest that are left."""
        return max(0.0, self._retry_after_until - now)

    def cooling_down(self, now: float) -> bool:
        return now < self._retry_after_until

    def only_rate_limited(self, now: float) -> bool:
        """Whether all that is wrong with it is a rate limit: it rests because of a 429."""
        return self.cooling_down(now) and now < self._rate_limited_until and self.open_until is None

    @property
    def probing(self) -> bool:
        """Here or elsewhere."""
        return self._probes > 0 or not self.lease.available()

    def begin(self, now: float) -> bool:
        """A request is about to be sent. True: it is a probe; hand that back when it ends."""
        if self.open_until is None:
            return False
        if now >= self.open_until:
            self.lease.acquire()
        self._begun_at = now
        self._probes += 1
        return True

    def succeed(self, now: float, *, probe: bool) -> None:
        if probe:
            self._close_after_probe(now)
        self.deprioritised_count = 0
        self.outcomes.add(now)

    def on_probe_content(self, now: float) -> None:
        """The probe has shown content: it closes, though what was the probe goes on."""
        self.deprioritised_count = 0
        self._close_after_probe(now)

    def fail(self, now: float, *, probe: bool, draw: float = 1.0) -> None:
        """draw: uniform in [0, 1), for the cooldown's jitter."""
        before, self._failed_at = self._failed_at, now
        self.last_failure = now
        if probe and self.open_until is not None and now >= self.open_until:
            # Idle time has shown nothing of the backend: the cooldown begins anew.
            idle = now - self.open_until > max(self._cooldown, self.rule.window_s)
            longer = self.rule.cooldown_s if idle else self._cooldown * 2
            self._cooldown = min(longer, self.rule.longest_s)
            self._open(now, draw)
        else:
            self._add_evidence(now, before)
            needed = max(self.rule.min_requests, MIN_FAILED_SHARE * self.outcomes.total)
            if self.open_until is None and self._evidence >= needed:
                self._open(now, draw)
        if probe:
            self._end_probe()

    def cool_down(self, now: float, seconds: float, *, probe: bool, limited: bool = True) -> None:
        """The backend asked for a pause (429, or 503, with retry-after); a longer one is kept.

        seconds: of which `max_retry_after_s` are believed. limited: it was a 429.
        """
        if probe:
            self._close_after_probe(now)
        seconds = min(seconds, self.rule.max_retry_after_s)
        if limited:
            self._rate_limited_until = max(self._rate_limited_until, now + seconds)
        if now + seconds > self._retry_after_until:
            self._retry_after_until = now + seconds
            self._update_impaired_until()
            self.changed()

    def deprioritise(self, now: float, draw: float, *, probe: bool) -> None:
        """It said 429 and not for how long. draw: uniform in [0, 1).

        What comes while it is spared was sent before, or by want of others: that is no news.
        """
        if probe:
            self._close_after_probe(now)
        if now >= self._deprioritised_until:
            seconds = min(DEPRIORITISE_S * 2.0**self.deprioritised_count, MAX_DEPRIORITISE_S)
            self.deprioritised_count = min(self.deprioritised_count + 1, _DOUBLINGS)
            self._deprioritised_until = now + seconds * (0.5 + draw / 2)
            self._update_impaired_until()
            self.changed()

    def ignore_outcome(self, *, probe: bool) -> None:
        """The request ended for the caller's reasons; it says nothing about the backend."""
        if probe:
            self._end_probe()

    def reset(self, now: float) -> None:
        """The backend was started anew: what it did before says nothing about it."""
        self._retry_after_until = self._rate_limited_until = self._deprioritised_until = float(
            "-inf"
        )
        self.deprioritised_count = 0
        self._close(now)

    def _add_evidence(self, now: float, before: float) -> None:
        """One more failure. before: when the one before it was.

        Successes are counted, not weighed, as they come: since the last failure they could only
        lower the sum. A failure that is older than the window is no evidence of now.
        """
        passed = self.outcomes.ever - self._seen
        rate = self.rule.failure_rate
        left = 0.0 if now - before > self.rule.window_s else self._evidence
        if passed and left:
            left = max(0.0, left - passed * rate / (1.0 - rate)) if rate < 1.0 else 0.0
        self._evidence = left + 1.0
        self.outcomes.add(now)
        self._seen = self.outcomes.ever

    def _open(self, now: float, draw: float) -> None:
        self._at = now
        self.open_until = now + self._cooldown * (1.0 - JITTER + JITTER * draw)
        self._update_impaired_until()
        self.changed()

    def _close_after_probe(self, now: float) -> None:
        """By a probe."""
        if self.open_until is not None:
            self._close(now)
        self._end_probe()

    def _close(self, now: float) -> None:
        self._at, self.open_until = now, None
        self._clear_evidence()
        self._update_impaired_until()
        self.changed()

    def _clear_evidence(self) -> None:
        """What was before says nothing about it."""
        self._cooldown = self.rule.cooldown_s
        self._evidence, self._seen = 0.0, 0
        self.outcomes.clear()

    def _update_impaired_until(self) -> None:
        closed = self.open_until is None
        self.impaired_until = (
            max(self._retry_after_until, self._deprioritised_until) if closed else float("inf")
        )

    def _end_probe(self) -> None:
        self._probes -= 1
        if not self._probes:
            self.lease.release()
