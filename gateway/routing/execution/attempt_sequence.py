"""The tries of one request, one after the other: whom to ask next, and when to give up."""

import asyncio
import random

from gateway.clock import now
from gateway.routing.execution.attempt import TIMER_S, Attempt, start_attempt
from gateway.routing.execution.release_traceback import release_traceback
from gateway.routing.planning.candidate import Candidate
from gateway.routing.planning.last_resort import LastResort
from gateway.routing.planning.plan import Plan, no_backend_available
from gateway.routing.request_record import AttemptRecord, RequestRecord
from gateway.routing.resilience.retry import may_fail_over, may_retry, pause
from gateway.upstream.base import Call
from schemas.errors import (
    DeadlineExceeded,
    GatewayError,
    InvalidRequest,
    UpstreamBusy,
    UpstreamError,
    UpstreamTimeout,
)
from schemas.requests import Request

_AttemptFields = tuple[Candidate, Request, Call, RequestRecord, AttemptRecord, float, Plan, bool]
"""The fields of a Try, in order."""

PASSED = "the request's deadline has passed"


class AttemptSequence:
    """Gives turns, the `first` and the `next`; each has to be told how it ended.

    After a failure that may move on, `next` goes on with the same backend (after a pause) or
    another. When nobody is left to ask, the last failure is raised, or, where no backend had
    words for the request, the first refusal. A refusal takes none of the attempts, for nothing
    was sent.
    """

    __slots__ = (
        "_hedged",
        "_last_resort",
        "_left",
        "_queue",
        "_repeats",
        "_reported",
        "_request",
        "_rule",
        "_tenant",
        "_used_fallbacks",
        "deadline",
        "plan",
        "record",
    )

    def __init__(self, plan: Plan, request: Request, record: RequestRecord, tenant: str) -> None:
        self.plan = plan
        self.record = record
        self._request = request
        self.deadline = record.started + plan.deadline_s
        self._rule = plan.retry
        self._used_fallbacks: tuple[str, ...] = ()
        self._tenant = tenant
        self._queue: tuple[Candidate, ...] = plan.candidates
        self._last_resort = LastResort(plan.unavailable, plan.retry)
        self._repeats = 0
        self._left = plan.retry.attempts
        self._hedged = False
        self._reported: tuple[Candidate, GatewayError] | None = None
        if plan.hedging is not None:
            plan.hedging.budget.firsts.add(record.started)

    async def first(self) -> "PrimaryAttempt":
        """Waits where no backend is healthy and one can be tried in time.

        Raises Unavailable where none can.
        """
        self._skip_unavailable(now())
        if not self._queue and not await self._use_last_resort():
            raise no_backend_available(self._last_resort.untried or self.plan.candidates, now())
        return self._start()

    def on_first_started(self) -> None:
        """The first was given without this object: see `first_of`."""
        self._left -= 1

    async def next(self, failed: "PrimaryAttempt") -> "PrimaryAttempt":
        """After one that moves on. Raises its failure where nobody is left to ask."""
        assert failed.error is not None
        await self._choose_next(failed, failed.error)
        return self._start()

    def hedge(self) -> Attempt | None:
        """Another try beside the one that is late, at the next backend; once a request.

        None where nobody else may be asked, or the hedges' budget is spent. Nobody who has to do
        without a field that this one honours: being late is no reason for a lesser answer.
        """
        hedging, at = self.plan.hedging, now()
        if self._hedged or self._left <= 0 or hedging is None or at >= self.deadline:
            return None
        whole = not self._queue[0].dropped
        for place in range(1, len(self._queue)):
            other = self._queue[place]
            if other.breaker.is_available(at) and not (whole and other.dropped):
                break
        else:
            return None
        if not hedging.budget.take(at):
            return None
        self._hedged = True
        self._left -= 1
        beside = self._queue[place]
        self._queue = self._queue[:place] + self._queue[place + 1 :]
        one = Attempt(*self._fields(beside, at))
        one.entry.hedge = True
        return one

    def continue_with(self, survivor: Candidate) -> None:
        """Of two that were asked at once, this one, the hedge, is left."""
        self._queue = survivor, *self._queue[1:]
        self._repeats = 0

    def refund(self) -> None:
        """A try in which nothing was sent takes no attempt."""
        self._left += 1

    def may_fail_over(self, error: GatewayError) -> bool:
        """Whether somebody else may be asked, and will be if there is one."""
        return may_fail_over(error, self._rule) or (
            error.code not in self._used_fallbacks and any(self.plan.error_fallback(error.code))
        )

    async def _choose_next(self, failed: "PrimaryAttempt", error: GatewayError) -> None:
        """Put the next to ask at the head of the queue; raises the failure when there is none."""
        refused = isinstance(error, InvalidRequest)
        if refused:
            self.refund()
        if self._reported is None or not refused:
            self._reported = failed.current.candidate, error
        if not self._use_error_fallback(error):
            if await self._retry(failed, error):
                return
            self._queue = self._queue[1:]
        self._repeats = 0
        self._skip_unavailable(now())
        if self._left > 0 and (self._queue or await self._use_last_resort()):
            return
        told, failure = self._reported
        self.record.backend, self.record.dropped = told.name, told.reported_omissions
        self.record.defaulted = told.defaulted
        raise failure

    async def _retry(self, failed: "PrimaryAttempt", error: GatewayError) -> bool:
        """Whether the same backend is asked again; if so, the pause before it is over.

        Not one that is busy, or let us wait in vain, while others can be asked at once; nor one
        that rests for longer than the pause, for whatever reason. The last attempt is not its,
        while there is an unhealthy one that was not asked.
        """
        at, others = now(), len(self._queue) - 1
        candidate = failed.current.candidate
        backend, breaker = candidate.backend, candidate.breaker
        wait = pause(error, self._rule, self._repeats, random.random())
        may = may_retry(error, self._rule)
        if may:
            busy = isinstance(error, UpstreamBusy)
            self._last_resort.on_failure(candidate, not_before=at + wait, busy=busy)
        ill = 1 if self._last_resort.any_in_time(at, self.deadline) else 0
        if (others and isinstance(error, UpstreamBusy)) or (
            others + ill and isinstance(error, UpstreamTimeout)
        ):
            return False
        repeat = (
            may
            and self._left > others + ill
            and wait <= self._rule.max_backoff_s
            and at + wait < self.deadline
            and breaker.available_in(at) <= wait
            and backend.budget.take(at)
        )
        if not repeat:
            return False
        self._repeats += 1
        await asyncio.sleep(wait + TIMER_S)  # a pause is a lower bound
        return breaker.is_available(now())

    async def _use_last_resort(self) -> bool:
        """Whether there is one to try where no healthy one is left; it is in the queue, then."""
        choice = await self._last_resort.next(self._left, self.deadline)
        if choice is None:
            return False
        self._repeats = 0 if choice.tried is None else choice.tried.times
        self._queue = (choice.candidate,)
        return True

    def _skip_unavailable(self, at: float) -> None:
        """They are tried when no other is left."""
        while self._queue and not self._queue[0].breaker.is_available(at):
            self._last_resort.untried.append(self._queue[0])
            self._queue = self._queue[1:]

    def _use_error_fallback(self, error: GatewayError) -> bool:
        """Put those in the queue who may answer after such a failure, once for each code."""
        if error.code in self._used_fallbacks:
            return False
        self._used_fallbacks += (error.code,)
        others = self.plan.error_fallback(error.code)
        if not others:
            return False
        if self._left <= 0:
            raise error
        self._queue, self._last_resort = others, LastResort((), self._rule)
        return True

    def _start(self) -> "PrimaryAttempt":
        candidate, at = self._queue[0], now()
        if at >= self.deadline:
            raise DeadlineExceeded(PASSED)
        if self._repeats == 0:
            candidate.backend.budget.firsts.add(at)
        self._left -= 1
        return PrimaryAttempt(*self._fields(candidate, at), sequence=self)

    def _fields(self, candidate: Candidate, at: float) -> _AttemptFields:
        call = Call(
            model=candidate.model,
            deadline=self.deadline,
            request_id=self.record.request_id,
            tenant=self._tenant,
            large=self.record.large,
        )
        probe = candidate.breaker.begin(at)
        entry = start_attempt(candidate, self.record, at)
        return candidate, self._request, call, self.record, entry, at, self.plan, probe


class PrimaryAttempt(Attempt, eq=False):
    """A try whose answer may be the request's: `current` succeeds, or ask whether it `moves_on`.

    `commit` it once the client is about to see content.

    account: `None` for the first turn, until one is needed.
    instead: the hedge that has taken its place.
    error:   what has ended it, where another follows.
    """

    sequence: AttemptSequence | None = None
    replacement: Attempt | None = None
    error: GatewayError | None = None

    @property
    def current(self) -> Attempt:
        """Of two that were asked at once, who is left."""
        return self.replacement or self

    @property
    def rest(self) -> AttemptSequence:
        """What follows when this one fails."""
        if self.sequence is None:
            self.sequence = AttemptSequence(
                self.plan, self.client_request, self.record, self.call.tenant
            )
            self.sequence.on_first_started()
        return self.sequence

    def commit(self) -> None:
        self.committed = True
        self.current.on_first_content(now())

    def replace_with(self, hedge: Attempt) -> None:
        """The first has fallen out; whoever was asked beside it is the one now."""
        self.replacement = hedge
        self.rest.continue_with(hedge.candidate)

    def should_fail_over(self, error: BaseException) -> bool:
        """Books what has ended it; true where another turn may follow.

        Raises DeadlineExceeded where that is why.
        """
        at = now()
        if isinstance(error, UpstreamError) and error.usage is not None:
            self.record.usage = error.usage
        self.current.fail(error, at)
        if isinstance(error, UpstreamError) and at >= self.rest.deadline - TIMER_S:
            raise DeadlineExceeded(PASSED) from error
        if (
            not self.committed
            and isinstance(error, GatewayError)
            and self.rest.may_fail_over(error)
        ):
            release_traceback(error)
            self.error = error
            return True
        return False


def first_attempt(
    plan: Plan, request: Request, record: RequestRecord, tenant: str
) -> PrimaryAttempt | None:
    """The first turn of a request; `None` where it takes `Attempts.first`, which may wait.

    Nearly every request needs no other, so what keeps account of several is made when one fails.
    Raises DeadlineExceeded.
    """
    if not plan.candidates or plan.hedging is not None:
        return None
    candidate = plan.candidates[0]
    if candidate.breaker.open_until is not None:
        return None
    at, deadline = now(), record.started + plan.deadline_s
    if at >= deadline:
        raise DeadlineExceeded(PASSED)
    firsts = candidate.backend.budget.firsts
    if at >= firsts.over_at:
        firsts.advance(at)
    firsts.current += 1
    call = Call(
        model=candidate.model,
        deadline=deadline,
        request_id=record.request_id,
        tenant=tenant,
        large=record.large,
    )
    return PrimaryAttempt(
        candidate, request, call, record, start_attempt(candidate, record, at), at, plan
    )
