"""Which backend a request tries when no healthy one is left, and for how long it waits for it.

Nobody is refused while a backend could serve, the attempts last, and the deadline has not passed:

1. A backend that cools down and is not broken is waited for: at most `max_backoff_s`, never
   beyond the deadline, and never less than the backend asked for.
2. Then the one whose last failure is the oldest is tried although its circuit is open: a few
   requests at a time (`Breaker.last_chance_in`), so that a dead backend is not stormed.
3. Then those that this request has tried are tried again, after a pause and within the
   provider's retry budget.
"""

import asyncio
from collections.abc import Iterable
from typing import NamedTuple

from gateway.clock import now
from gateway.config.schema_failover import Retry as RetryRule
from gateway.routing.planning.candidate import Candidate
from gateway.routing.resilience.circuit_breaker import Breaker

POLL_S = 0.1
"""Between two looks while a request waits: another backend may recover first."""

TIMER_S = 0.001
"""Timers go by whole milliseconds, and may come that much too early."""

MAX_WAITING = 512
"""Requests that wait for one backend, per process: the next one is refused at once, so that a
dead backend does not fill `server.max_in_flight`, which all models share."""


class FailedBackend(NamedTuple):
    """A backend that has failed this request, and may be tried again.

    not_before: the clock's seconds. busy: it answered 429. times: how often it was tried.
    """

    candidate: Candidate
    not_before: float
    busy: bool
    times: int


class Choice(NamedTuple):
    """The best that is left. wait: in seconds; 0: it may be tried now."""

    candidate: Candidate
    wait: float
    tried: FailedBackend | None = None


class LastResort:
    """Of one request: the backends that are unhealthy, in the plan's order, and those it tried."""

    __slots__ = ("_rule", "_tried", "untried")

    def __init__(self, untried: Iterable[Candidate], rule: RetryRule) -> None:
        self.untried = list(untried)
        self._tried: list[FailedBackend] = []
        self._rule = rule

    def on_failure(self, candidate: Candidate, *, not_before: float, busy: bool) -> None:
        """It may be tried again."""
        before = next((one for one in self._tried if one.candidate is candidate), None)
        if before is not None:
            self._tried.remove(before)
        times = 1 if before is None else before.times + 1
        self._tried.append(FailedBackend(candidate, not_before, busy, times))

    def any_in_time(self, at: float, deadline: float) -> bool:
        """Whether one that was not tried can be, in time."""
        until = min(deadline, at + self._rule.max_backoff_s)
        return any(at + _wait(one.breaker, at, until) <= until for one in self.untried)

    async def next(self, left: int, deadline: float) -> Choice | None:
        """The next to try, once it may be; `None` where there is none in time.

        left: attempts. deadline: the clock's seconds.
        """
        at = now()
        until = min(deadline, at + self._rule.max_backoff_s)
        while True:
            choice = self.best(left, at, until)
            if choice is None:
                return None
            if choice.wait <= 0.0:
                if self._take(choice, at):
                    return choice
            elif not await _poll(choice):
                return None
            at = now()

    def _take(self, choice: Choice, at: float) -> bool:
        """Whether it may be tried: a second try has to be within its provider's budget."""
        if choice.tried is None:
            self.untried.remove(choice.candidate)
            return True
        if choice.candidate.backend.budget.take(at):
            return True
        self._tried.remove(choice.tried)
        return False

    def best(self, left: int, at: float, until: float) -> Choice | None:
        """The best that may be tried before `until`. left: attempts."""
        found: list[tuple[int, float, Choice]] = []
        broken = False
        for candidate in self.untried:
            breaker = candidate.breaker
            closed = _expected_to_serve(breaker, at)
            broken = broken or not closed
            wait = _wait(breaker, at, until)
            order = wait if closed else breaker.last_failure
            found.append((1 if closed else 2, order, Choice(candidate, wait)))
        for one in self._tried:
            breaker = one.candidate.breaker
            closed = _expected_to_serve(breaker, at)
            wait = max(_wait(breaker, at, until), one.not_before - at)
            order = wait if closed else breaker.last_failure
            # A backend that is only busy is a better choice than a broken one, but for the last
            # attempt: that is for the one that has not been tried.
            first = closed and one.busy and (left > 1 or not broken)
            rank = 1 if first else 3 if closed else 4
            found.append((rank, order, Choice(one.candidate, wait, one)))
        in_time = [one for one in found if at + one[2].wait <= until]
        return min(in_time, key=lambda one: one[:2])[2] if in_time else None


def _expected_to_serve(breaker: Breaker, at: float) -> bool:
    """Whether it is expected to serve when its rest is over."""
    return breaker.open_until is None or breaker.is_available(at)


def _wait(breaker: Breaker, at: float, until: float) -> float:
    """Seconds until it may be tried. With all its places taken, one may be free soon."""
    wait = breaker.last_resort_in(at)
    return wait if wait != float("inf") else min(POLL_S, max(0.0, until - at) + TIMER_S)


async def _poll(choice: Choice) -> bool:
    """A while, after which the choice may be another. False: too many wait for it."""
    breaker = choice.candidate.breaker
    if breaker.waiting >= MAX_WAITING:
        return False
    breaker.waiting += 1
    try:
        await asyncio.sleep(min(choice.wait, POLL_S) + TIMER_S)
    finally:
        breaker.waiting -= 1
    return True


def none_in_time(
    candidates: Iterable[Candidate], rule: RetryRule, deadline_s: float, at: float
) -> bool:
    """Whether none of them can be tried in time: each asked for a longer rest."""
    until = at + min(rule.max_backoff_s, deadline_s)
    return LastResort(candidates, rule).best(rule.attempts, at, until) is None
