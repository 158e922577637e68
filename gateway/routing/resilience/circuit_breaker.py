"""Whether a backend may be asked now: its circuit breaker, and its cooldown after a 429.

closed -> open by Page's cumulative sum test: the evidence grows by 1 with each failure, shrinks by
failure_rate / (1 - failure_rate) with each success, and is never below 0. The breaker opens when
the evidence reaches `min_requests`, or a share of the requests in the window where that is more.
The sum drifts upwards only if more than `failure_rate` of the requests fail, and its rate of false
alarms is known per request, no matter how often it is evaluated (docs/adr/0020). Open -> half-open
after a cooldown, which lets one probe through. Its first content, or its success, closes the
circuit; its failure opens it again for twice as long, up to a maximum.

A 429 with retry-after starts a cooldown of that length, during which the backend gets no requests.
It is a lower bound, it never counts as a failure, and neither it nor the open circuit shortens the
other. A 429 without retry-after deprioritises the backend for a time that we choose: it may be
asked, but others are asked first. Times are seconds of a monotonic clock, passed in.

A backend that refuses the operator's account, key or model gets no requests for minutes
(`refusals.py`). If no other backend is left, a request may be sent to one that refuses, or whose
circuit is open (`last_resort_in`), a few at a time. Its success closes the circuit.

Breakers of the same backend in several processes act as one: each sends its `snapshot` when it
changes, the others `merge` it, and a lease lets one process probe at a time. Between gateways,
evidence is added up first, and what opens a circuit here is never one other gateway's word
(`gateway/coordination/shared_evidence.py`).

E. S. Page, "Continuous inspection schemes", Biometrika 41 (1954), 100-115.
"""

from collections.abc import Callable
from typing import Literal

from gateway.config.schema.failover import BreakerRule
from gateway.routing.resilience.breaker_snapshot import BreakerSnapshot
from gateway.routing.resilience.lease import UNCONTENDED
from gateway.routing.resilience.recent_activity import SlidingCount
from gateway.routing.resilience.refusals import Refusals

State = Literal["closed", "open", "half_open"]

DEPRIORITISE_S, MAX_DEPRIORITISE_S = 1.0, 60.0
"""The time after a 429 without retry-after. Each further 429 doubles it; a success resets it."""

_DOUBLINGS = 6
"""How many doublings take DEPRIORITISE_S beyond MAX_DEPRIORITISE_S."""

MIN_FAILED_SHARE = 0.02
"""The evidence that opens the circuit, as a share of the requests in the window, if that is more
than `min_requests`. If every request fails, it opens after this part of the window."""

LAST_RESORT_EVERY_S, MAX_LAST_RESORTS = 0.1, 10
"""If no other backend is left: the least time between two requests to a backend whose circuit is
open, and how many of them may be in flight, per process."""

JITTER = 0.2
"""The random part of a cooldown, so that gateways do not probe at the same time."""


def _no_listener() -> None:
    """The hook for changes in a single process: there is no other to notify."""


class Breaker:
    """The mutable state of one backend's health. Not thread-safe; one event loop owns it.

    open_until: when the circuit becomes half-open; `None` while it is closed.
    changed:    called when `snapshot` has changed. lease: must be held to probe.
    failed:     failures ever. on_failure: called after each.
    seen_by:    see BreakerSnapshot.
    deprioritised_count: how often the backend was deprioritised since the last success.
    outcomes:   counts the attempts that ended within the window. If the circuit is closed and
                `deprioritised_count` is 0, a success changes nothing else.
    waiting:    requests that wait until the backend can be asked.
    refusals:   of the operator's account, key or model; see `refused_for`.
    impaired_until: from then on the backend needs no further check, so that the request path
                compares one number; infinity while the circuit is not closed, and then
                `is_preferred` decides.
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
        "failed",
        "impaired_until",
        "last_failure",
        "lease",
        "on_failure",
        "open_until",
        "outcomes",
        "refusals",
        "rule",
        "seen_by",
        "waiting",
    )

    def __init__(self, rule: BreakerRule) -> None:
        self.rule = rule
        self.last_failure = float("-inf")
        self.outcomes = SlidingCount(rule.window_s)
        self._evidence = 0.0
        self._seen = self.failed = self.seen_by = 0
        self._failed_at = self._begun_at = float("-inf")
        self.open_until: float | None = None
        self._cooldown = rule.cooldown_s
        self._probes = self.waiting = 0
        self._retry_after_until = self._rate_limited_until = float("-inf")
        self._deprioritised_until = float("-inf")
        self.deprioritised_count = 0
        self.refusals = Refusals()
        self._at = self.impaired_until = float("-inf")
        self.changed: Callable[[], None] = _no_listener
        self.on_failure: Callable[[], None] = _no_listener
        self.lease = UNCONTENDED

    def snapshot(self) -> BreakerSnapshot:
        """The state to send to other processes."""
        return BreakerSnapshot(
            at=self._at,
            open_until=self.open_until,
            cooldown_s=self._cooldown,
            retry_after_until=self._retry_after_until,
            last_failure=self.last_failure,
            deprioritised_until=self._deprioritised_until,
            rate_limited_until=self._rate_limited_until,
            seen_by=self.seen_by,
            refused_at=self.refusals.at,
            refused_until=self.refusals.until,
        )

    def merge(self, health: BreakerSnapshot) -> None:
        """Adopt what another process knows about the same backend."""
        self._retry_after_until = max(self._retry_after_until, health.retry_after_until)
        self._deprioritised_until = max(self._deprioritised_until, health.deprioritised_until)
        self._rate_limited_until = max(self._rate_limited_until, health.rate_limited_until)
        self.last_failure = max(self.last_failure, health.last_failure)
        self.refusals.merge(health.refused_at, health.refused_until)
        if health.at > self._at:
            self._at = health.at
            stays_open = self.open_until is not None and health.open_until is not None
            self.seen_by = max(self.seen_by, health.seen_by) if stays_open else health.seen_by
            self.open_until = health.open_until
            self._cooldown = health.cooldown_s
            if health.open_until is None:
                self._clear_evidence()
        self._update_impaired_until()

    def state(self, now: float) -> State:
        """Whether it is used; `open` while it refuses the account, too."""
        if not self._is_shut(now):
            return "closed"
        until = max(self.open_until or self.refusals.until, self.refusals.until)
        return "half_open" if now >= until else "open"

    def is_available(self, now: float) -> bool:
        """Whether a request may be sent: not cooling down, and closed or due for its one probe."""
        if now < self._retry_after_until or now < self.refusals.until:
            return False
        if self.open_until is None:
            return True
        return now >= self.open_until and not self._probes and self.lease.available()

    def is_preferred(self, now: float) -> bool:
        """Whether it is available and not deprioritised."""
        return now >= self._deprioritised_until and self.is_available(now)

    def deprioritised_for(self, now: float) -> float:
        """Seconds for which other backends are asked first."""
        return max(0.0, self._deprioritised_until - now)

    def available_in(self, now: float) -> float:
        """Seconds until `is_available` can become true by itself; 0 while it is true."""
        opens = self.open_until or float("-inf")
        return max(0.0, max(self._retry_after_until, self.refusals.until, opens) - now)

    def last_resort_in(self, now: float) -> float:
        """Seconds until a request without another backend may be sent, even if the circuit is open.

        0 if it may be sent now; infinity while `MAX_LAST_RESORTS` are in flight. How long a refusal
        lasts is only a guess, so that it does not count.
        """
        wait = max(0.0, self._retry_after_until - now)
        if not self._is_shut(now) or self.is_available(now):
            return wait
        if self._probes >= MAX_LAST_RESORTS:
            return float("inf")
        return max(wait, max(self._failed_at, self._begun_at) + LAST_RESORT_EVERY_S - now)

    def cooldown_left(self, now: float) -> float:
        """The rest of the cooldown that the backend asked for, in seconds."""
        return max(0.0, self._retry_after_until - now)

    def cooling_down(self, now: float) -> bool:
        """Whether the backend asked for a pause that is not over."""
        return now < self._retry_after_until

    def only_rate_limited(self, now: float) -> bool:
        """Whether a rate limit is the only problem: it cools down after a 429, and is closed."""
        limited = self.cooling_down(now) and now < self._rate_limited_until
        return limited and not self._is_shut(now)

    def refused_for(self, now: float) -> float:
        """Seconds for which it gets no requests because it refused the account, key or model."""
        return max(0.0, self.refusals.until - now)

    def _is_shut(self, now: float) -> bool:
        """Whether the circuit is not closed, or a refusal has the same effect."""
        return self.open_until is not None or now < self.refusals.until

    @property
    def probing(self) -> bool:
        """Whether a probe is in flight, in this process or another one."""
        return self._probes > 0 or not self.lease.available()

    def begin(self, now: float) -> bool:
        """A request is about to be sent. True if it is a probe: pass that on when it ends."""
        if not self._is_shut(now):
            return False
        if self.open_until is not None and now >= max(self.open_until, self.refusals.until):
            self.lease.acquire()
        self._begun_at = now
        self._probes += 1
        return True

    def succeed(self, now: float, *, probe: bool) -> None:
        """A request has succeeded. probe: as returned by `begin`."""
        if probe:
            self._close_after_probe(now)
        self.deprioritised_count = 0
        self.outcomes.add(now)

    def on_probe_content(self, now: float) -> None:
        """The probe has content: close the circuit, although the request itself continues."""
        self.deprioritised_count = 0
        self._close_after_probe(now)

    def fail(self, now: float, *, probe: bool, draw: float = 1.0) -> None:
        """A request has failed. draw: jitter of the cooldown, uniform in [0, 1)."""
        before, self._failed_at = self._failed_at, now
        self.last_failure = now
        if probe and self.open_until is not None and now >= self.open_until:
            # Without requests nothing was learned about the backend: the cooldown starts over.
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
        self.failed += 1
        self.on_failure()

    def refuse(
        self,
        now: float,
        request: str,
        *,
        certain: bool,
        retry_after: float | None,
        probe: bool,
        draw: float = 1.0,
    ) -> bool:
        """The backend refused the operator's account, key or model. True if it is set aside now.

        request: the id of the request. certain: no request can be to blame; otherwise a refusal
        has no effect while the backend answers others. draw: as in `fail`.
        """
        answers = self.outcomes.ever > self._seen and self.outcomes.at(now) > 0
        if self.outcomes.ever > self._seen:
            self.refusals.clear(now)
        before, self._failed_at = self._failed_at, now
        self.last_failure = now
        self._add_evidence(now, before)
        sets_aside, known = certain or probe or not answers, self.refusals.until > now
        if sets_aside:
            seconds = self.refusals.add(now, request, retry_after, self.rule.max_retry_after_s)
            if self.refusals.confirmed and self.open_until is None:
                self._open(now, draw)
            self.refusals.until = max(self.refusals.until, now + jittered(seconds, draw))
            self._update_impaired_until()
            self.changed()
        if probe:
            self._end_probe()
        self.failed += 1
        self.on_failure()
        return sets_aside and not known

    def cool_down(self, now: float, seconds: float, *, probe: bool, limited: bool = True) -> None:
        """The backend asked for a pause (429 or 503 with retry-after); a longer one is kept.

        seconds: honoured up to `max_retry_after_s`. limited: it was a 429.
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
        """The backend sent 429 without retry-after. draw: jitter, uniform in [0, 1).

        No effect while it is deprioritised: such a request was sent before that, or for lack of
        another backend, so its 429 adds no information.
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
        """The request ended without evidence about the backend, for example by a disconnect."""
        if probe:
            self._end_probe()

    def reset(self, now: float) -> None:
        """The backend was restarted: discard everything known about it."""
        self._retry_after_until = self._rate_limited_until = float("-inf")
        self._deprioritised_until = float("-inf")
        self.deprioritised_count = 0
        self._close(now)

    def failed_within(self, seconds: float, now: float) -> bool:
        """Whether a request of this process has failed within so many seconds."""
        return now - self._failed_at <= seconds

    def _add_evidence(self, now: float, before: float) -> None:
        """Add one failure to the cumulative sum. before: the time of the previous failure.

        A success only adds to a count, and all successes since the last failure are subtracted
        here: they could only lower the sum, so the circuit cannot open between two failures.
        Evidence expires when no failure follows within the window.
        """
        successes = self.outcomes.ever - self._seen
        rate = self.rule.failure_rate
        evidence = 0.0 if now - before > self.rule.window_s else self._evidence
        if successes and evidence:
            evidence = max(0.0, evidence - successes * rate / (1.0 - rate)) if rate < 1.0 else 0.0
        self._evidence = evidence + 1.0
        self.outcomes.add(now)
        self._seen = self.outcomes.ever

    def _open(self, now: float, draw: float) -> None:
        self._at = now
        self.open_until = now + jittered(self._cooldown, draw)
        self.seen_by = max(1, self.seen_by)
        self._update_impaired_until()
        self.changed()

    def _close_after_probe(self, now: float) -> None:
        """Close the circuit after a probe that was answered, and end the probe."""
        if self._is_shut(now) or self.refusals.count:
            self._close(now)
        self._end_probe()

    def _close(self, now: float) -> None:
        self._at, self.open_until, self.seen_by = now, None, 0
        self.refusals.clear(now)
        self._clear_evidence()
        self._update_impaired_until()
        self.changed()

    def _clear_evidence(self) -> None:
        """Forget failures and doubled cooldowns: a closed circuit starts from zero."""
        self._cooldown = self.rule.cooldown_s
        self._evidence, self._seen = 0.0, self.outcomes.ever
        self.outcomes.clear()

    def _update_impaired_until(self) -> None:
        closed = self.open_until is None
        until = max(self._retry_after_until, self._deprioritised_until, self.refusals.until)
        self.impaired_until = until if closed else float("inf")

    def _end_probe(self) -> None:
        self._probes -= 1
        if not self._probes:
            self.lease.release()


def jittered(cooldown_s: float, draw: float) -> float:
    """Return the time from opening to the probe. draw: uniform in [0, 1)."""
    return cooldown_s * (1.0 - JITTER + JITTER * draw)
