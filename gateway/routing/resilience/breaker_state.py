"""The state of a circuit breaker, and what it means: what routing and operators read of it.

Two questions, two answers. `is_available`: may a request be sent now? An open circuit is due for a
probe after seconds. `is_up`: does the backend work, as far as is known? What is down stays down
until something succeeds, also without any request; metrics, the page and events report this one.
"""

from collections.abc import Callable
from typing import Literal

from strowger_gateway.gateway.config.schema.failover import BreakerRule
from strowger_gateway.gateway.routing.resilience.backend_hold import BackendHold
from strowger_gateway.gateway.routing.resilience.breaker_snapshot import BreakerSnapshot
from strowger_gateway.gateway.routing.resilience.failure_run import FailureRun, Whole
from strowger_gateway.gateway.routing.resilience.lease import UNCONTENDED
from strowger_gateway.gateway.routing.resilience.pauses import Pauses
from strowger_gateway.gateway.routing.resilience.recent_activity import SlidingCount
from strowger_gateway.gateway.routing.resilience.refusals import Refusals
from strowger_gateway.gateway.routing.slowness.pace import Pace
from strowger_gateway.gateway.routing.slowness.slow_calls import SlowCalls
from strowger_gateway.schemas.errors import GatewayError

State = Literal["closed", "open", "half_open"]
Phase = Literal["up", "failing", "refused", "open"]

LAST_RESORT_EVERY_S, MAX_LAST_RESORTS = 0.1, 10
"""If no other backend is left: the least time between two requests to a backend whose circuit is
open, and how many of them may be in flight, per process."""


def _no_listener() -> None:
    """The default of all hooks."""


class BreakerState:
    """The state of one backend's health. `Breaker` changes it.

    open_until: when the circuit becomes half-open; `None` while it is closed.
    changed:    called when `snapshot` has changed. lease: must be held to probe.
    moved:      called when `phase` may have changed, or a cooldown may have begun.
    failed:     failures ever. on_failure: called after each.
    seen_by:    see BreakerSnapshot.
    outcomes:   counts the attempts that ended within the window. If the attempt is not a probe and
                `unsettled` is false, a success changes nothing else.
    unsettled:  a success changes more: something has failed or was limited since the last one, it
                is the first, or only a health check has succeeded.
    run:        the failures in a row. whole: the breaker that counts those of all names, for one
                name of a wildcard. on_unsettled: called at the first of a run.
    failing_on: while a failure is counted: the error, and the client's request, if there is one.
    vouched:    nothing but a health check has succeeded since the last failures.
    waiting:    requests that wait until the backend can be asked.
    pace:       how long it takes, and whether it counts as slow: its siblings are asked first.
    slow_calls: evidence that it exceeds the operator's limit.
    refusals:   of the operator's account, key or model; see `refused_for`.
    hold:       of an operator; with one, no request is sent, not even as a last resort.
    impaired_until: from then on the backend needs no further check, so that the request path
                compares one number; infinity while the circuit is not closed, or there is
                a hold, and then `is_preferred` decides.
    """

    __slots__ = (
        "_at",
        "_begun_at",
        "_cooldown",
        "_evidence",
        "_failed_at",
        "_failures",
        "_probes",
        "_seen",
        "changed",
        "failed",
        "failing_on",
        "hold",
        "impaired_until",
        "last_failure",
        "lease",
        "moved",
        "on_failure",
        "on_unsettled",
        "open_until",
        "outcomes",
        "pace",
        "pauses",
        "refusals",
        "rule",
        "run",
        "seen_by",
        "slow_calls",
        "unsettled",
        "vouched",
        "waiting",
        "whole",
    )

    def __init__(self, rule: BreakerRule) -> None:
        self.rule = rule
        self.last_failure = float("-inf")
        self.outcomes, self._failures = SlidingCount(rule.window_s), SlidingCount(rule.window_s)
        self._evidence = 0.0
        self._seen = self.seen_by = 0
        self.failed: int = 0
        self._failed_at = self._begun_at = float("-inf")
        self.open_until: float | None = None
        self._cooldown = rule.cooldown_s
        self._probes = self.waiting = 0
        self.pauses, self.refusals, self.run = Pauses(), Refusals(), FailureRun()
        self.pace, self.slow_calls = Pace(), SlowCalls()
        self.unsettled, self.vouched = True, False
        self.whole: Whole | None = None
        self.hold: BackendHold | None = None
        self.failing_on: tuple[GatewayError, object] | None = None
        self._at = self.impaired_until = float("-inf")
        self.changed: Callable[[], None] = _no_listener
        self.moved: Callable[[], None] = _no_listener
        self.on_failure: Callable[[], None] = _no_listener
        self.on_unsettled: Callable[[], None] = _no_listener
        self.lease = UNCONTENDED

    def snapshot(self) -> BreakerSnapshot:
        """The state to send to other processes."""
        return BreakerSnapshot(
            at=self._at,
            open_until=self.open_until,
            cooldown_s=self._cooldown,
            retry_after_until=self.pauses.retry_after_until,
            last_failure=self.last_failure,
            deprioritised_until=self.pauses.deprioritised_until,
            rate_limited_until=self.pauses.rate_limited_until,
            seen_by=self.seen_by,
            refused_at=self.refusals.at,
            refused_until=self.refusals.until,
            failed_in_row=self.run.count,
            run_at=self.run.at,
            run_since=self.run.since,
            slow_at=self.pace.slow_at,
            slow_until=self.pace.slow_until,
        )

    def state(self, now: float) -> State:
        """Whether it is used; `open` while it refuses the account, too."""
        if not self._is_shut(now):
            return "closed"
        until = max(self.open_until or self.refusals.until, self.refusals.until)
        return "half_open" if now >= until else "open"

    def phase(self, now: float) -> Phase:
        """Whether it works as far as is known, pauses aside: what is not up is down."""
        if now < self.refusals.until or self.refusals.count:
            return "refused"
        if self.open_until is not None:
            return "open"
        return "failing" if self.run.failing else "up"

    def is_up(self, now: float) -> bool:
        """Whether it works and takes requests. Once down, only a success makes it true again."""
        if self.hold is not None:
            return False
        return not self.cooling_down(now) and self.phase(now) == "up"

    @property
    def is_tried(self) -> bool:
        """Whether an attempt has ended with an answer or a failure, as far as is known."""
        return self.run.count is not None or self.open_until is not None

    @property
    def down_since(self) -> float:
        """Since when nothing succeeds, if it is down: the first failure, or the opening."""
        return self.run.since if self.run.count else self._at

    def failed_share(self, now: float) -> float | None:
        """The share of failures among the attempts of this process in the window."""
        ended = self.outcomes.at(now)
        return min(1.0, self._failures.at(now) / ended) if ended else None

    def is_available(self, now: float) -> bool:
        """Whether a request may be sent: not cooling down, and closed or due for its one probe."""
        if now < self.pauses.retry_after_until or now < self.refusals.until or self.hold:
            return False
        if self.open_until is None:
            return True
        return now >= self.open_until and not self._probes and self.lease.available()

    def is_preferred(self, now: float) -> bool:
        """Whether it is available and not deprioritised."""
        return now >= self.pauses.deprioritised_until and self.is_available(now)

    def deprioritised_for(self, now: float) -> float:
        """Seconds for which other backends are asked first."""
        return max(0.0, self.pauses.deprioritised_until - now)

    def available_in(self, now: float) -> float:
        """Seconds until `is_available` can become true by itself; 0 while it is true.

        Infinity while there is a hold.
        """
        if self.hold is not None:
            return float("inf")
        opens = self.open_until or float("-inf")
        return max(0.0, max(self.pauses.retry_after_until, self.refusals.until, opens) - now)

    def last_resort_in(self, now: float) -> float:
        """Seconds until a request without another backend may be sent, even if the circuit is open.

        0 if it may be sent now; infinity while `MAX_LAST_RESORTS` are in flight, or there is a
        hold. How long a refusal lasts is only a guess, so that it does not count.
        """
        if self.hold is not None:
            return float("inf")
        wait = max(0.0, self.pauses.retry_after_until - now)
        if not self._is_shut(now) or self.is_available(now):
            return wait
        if self._probes >= MAX_LAST_RESORTS:
            return float("inf")
        return max(wait, max(self._failed_at, self._begun_at) + LAST_RESORT_EVERY_S - now)

    def cooldown_left(self, now: float) -> float:
        """The rest of the cooldown that the backend asked for, in seconds."""
        return max(0.0, self.pauses.retry_after_until - now)

    def cooling_down(self, now: float) -> bool:
        """Whether the backend asked for a pause that is not over."""
        return now < self.pauses.retry_after_until

    def only_rate_limited(self, now: float) -> bool:
        """Whether a rate limit is the only problem: it cools down after a 429, and is closed."""
        limited = self.cooling_down(now) and now < self.pauses.rate_limited_until
        return limited and not self._is_shut(now) and self.hold is None

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

    def failed_within(self, seconds: float, now: float) -> bool:
        """Whether a request of this process has failed within so many seconds."""
        return now - self._failed_at <= seconds

    def _update_impaired_until(self) -> None:
        closed = self.open_until is None and self.hold is None
        until = max(self.pauses.until, self.refusals.until, self.pace.slow_until)
        self.impaired_until = until if closed else float("inf")
