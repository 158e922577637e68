"""Which backend a request tries if no healthy one is left, and how long it waits for it.

No request is rejected while a backend could serve it, attempts are left, and the deadline has not
passed:

1. The request waits for a backend that cools down and whose circuit is closed: at most
   `max_backoff_s`, never beyond the deadline, and never less than the backend asked for.
2. Then it tries the backend with the oldest last failure, although its circuit is open, or its
   vendor refuses the operator's account. Few requests at a time do so (`Breaker.last_resort_in`),
   to protect a backend that is down.
3. Then it tries the backends again that it has tried, after a pause and within the provider's
   retry budget.
"""

import asyncio
from collections.abc import Iterable
from typing import NamedTuple

from strowger_gateway.gateway.config.schema.failover import RetryRule
from strowger_gateway.gateway.platform.clock import now
from strowger_gateway.gateway.routing.planning.candidate import Candidate
from strowger_gateway.gateway.routing.resilience.circuit_breaker import Breaker

POLL_S = 0.1
"""The interval at which a waiting request checks all backends: another one may recover first."""

TIMER_S = 0.001
"""Timers are rounded to whole milliseconds and may fire this much too early."""

MAX_WAITING = 512
"""Requests that may wait for one backend, per process. Further ones are rejected immediately, so
that a dead backend does not fill `server.max_in_flight`, which all models share."""


class FailedBackend(NamedTuple):
    """A backend that has failed this request and may be tried again.

    not_before: the clock's seconds. busy: it answered 429. times: how often it was tried.
    """

    candidate: Candidate
    not_before: float
    busy: bool
    times: int


class Choice(NamedTuple):
    """The best remaining backend. wait: seconds; 0 if it may be tried now.

    tried: the earlier failure of the same backend; `None` if this request has not tried it.
    """

    candidate: Candidate
    wait: float
    tried: FailedBackend | None = None


class LastResort:
    """The unhealthy backends of one request, and those that it has tried.

    untried: in the order of the plan. Those that an operator holds are never tried.
    """

    __slots__ = ("_rule", "_tried", "untried")

    def __init__(self, untried: Iterable[Candidate], rule: RetryRule) -> None:
        self.untried = list(untried)
        self._tried: list[FailedBackend] = []
        self._rule = rule

    def on_failure(self, candidate: Candidate, *, not_before: float, busy: bool) -> None:
        """The candidate has failed, and may be tried again. not_before: the clock's seconds."""
        before = next((one for one in self._tried if one.candidate is candidate), None)
        if before is not None:
            self._tried.remove(before)
        times = 1 if before is None else before.times + 1
        self._tried.append(FailedBackend(candidate, not_before, busy, times))

    def give_up(self, candidate: Candidate) -> None:
        """Never try the candidate again."""
        self._tried = [one for one in self._tried if one.candidate is not candidate]

    def any_in_time(self, at: float, deadline: float) -> bool:
        """Whether an untried backend can be tried in time. at, deadline: the clock's seconds."""
        until = min(deadline, at + self._rule.max_backoff_s)
        return any(
            at + _wait(one.breaker, at, until) <= until
            for one in self.untried
            if one.breaker.hold is None
        )

    async def next(self, left: int, deadline: float) -> Choice | None:
        """Wait until the best backend may be tried; `None` if there is none in time.

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
        """Claim the choice; false if it is a retry and its provider's budget is spent."""
        if choice.tried is None:
            self.untried.remove(choice.candidate)
            return True
        if choice.candidate.backend.budget.take(at):
            return True
        self._tried.remove(choice.tried)
        return False

    def best(self, left: int, at: float, until: float) -> Choice | None:
        """The best backend that may be tried before `until`. left: attempts."""
        found: list[tuple[int, float, Choice]] = []
        any_open = False
        for candidate in self.untried:
            breaker = candidate.breaker
            if breaker.hold is not None:
                continue
            closed = _expected_to_serve(breaker, at)
            any_open = any_open or not closed
            wait = _wait(breaker, at, until)
            order = wait if closed else breaker.last_failure
            found.append((1 if closed else 2, order, Choice(candidate, wait)))
        for one in self._tried:
            breaker = one.candidate.breaker
            if breaker.hold is not None:
                continue
            closed = _expected_to_serve(breaker, at)
            wait = max(_wait(breaker, at, until), one.not_before - at)
            order = wait if closed else breaker.last_failure
            # A backend that is only busy is better than one with an open circuit, except for the
            # last attempt, which is reserved for a backend that has not been tried.
            first = closed and one.busy and (left > 1 or not any_open)
            rank = 1 if first else 3 if closed else 4
            found.append((rank, order, Choice(one.candidate, wait, one)))
        in_time = [one for one in found if at + one[2].wait <= until]
        return min(in_time, key=lambda one: one[:2])[2] if in_time else None


def _expected_to_serve(breaker: Breaker, at: float) -> bool:
    """Whether the backend is expected to serve when its cooldown is over."""
    closed = breaker.open_until is None and not breaker.refused_for(at)
    return closed or breaker.is_available(at)


def _wait(breaker: Breaker, at: float, until: float) -> float:
    """Seconds until it may be tried; one poll interval if `MAX_LAST_RESORTS` are in flight."""
    wait = breaker.last_resort_in(at)
    return wait if wait != float("inf") else min(POLL_S, max(0.0, until - at) + TIMER_S)


async def _poll(choice: Choice) -> bool:
    """Sleep before the next look at all backends; false if too many requests wait for this one."""
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
    """Whether no candidate can be tried in time, because each one asked for a longer cooldown."""
    until = at + min(rule.max_backoff_s, deadline_s)
    return LastResort(candidates, rule).best(rule.attempts, at, until) is None
