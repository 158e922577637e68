"""The attempts of one request, in sequence: which backend is asked next, and when to give up.

Most requests need a single attempt, which `first_attempt` starts without an `AttemptSequence`; the
sequence is created when that attempt fails, or up front if the first attempt has to wait.
"""

import asyncio
import random

from strowger_gateway.gateway.backends.upstream.base import Call
from strowger_gateway.gateway.backends.upstream.own_limits import ConnectionsInUse
from strowger_gateway.gateway.platform.clock import now
from strowger_gateway.gateway.routing.execution.attempt import (
    TIMER_S,
    Attempt,
    begun,
    report_changes,
    start_attempt,
    waits_for,
    weight_of,
)
from strowger_gateway.gateway.routing.execution.release_traceback import release_traceback
from strowger_gateway.gateway.routing.planning.candidate import Candidate
from strowger_gateway.gateway.routing.planning.last_resort import LastResort
from strowger_gateway.gateway.routing.planning.plan import Plan, no_backend_available
from strowger_gateway.gateway.routing.request_record import AttemptRecord, RequestRecord
from strowger_gateway.gateway.routing.resilience.circuit_breaker import Breaker
from strowger_gateway.gateway.routing.resilience.retry import (
    costs_an_attempt,
    may_fail_over,
    may_retry,
    pause,
)
from strowger_gateway.schemas.errors import (
    DeadlineExceeded,
    GatewayError,
    InvalidRequest,
    UpstreamBusy,
    UpstreamError,
    UpstreamSilent,
    UpstreamTimeout,
)
from strowger_gateway.schemas.holdings import AT_ONCE
from strowger_gateway.schemas.requests import Request

_AttemptFields = tuple[Candidate, Request, Call, RequestRecord, AttemptRecord, float, Plan, bool]
"""The fields of an `Attempt` in their order, because it is created by position."""

PASSED = "the request's deadline has passed"


class AttemptSequence:
    """Starts the attempts of one request: `first`, then `next` after each failure.

    After a failure that may fail over, `next` asks the same backend again (after a pause) or
    another one. When no backend is left, it raises the last failure: one that could have been an
    answer, else one of a backend that refuses the operator's account, else the first
    InvalidRequest. The last two do not count towards `retry.attempts`, so that every backend of a
    pool is asked, however many of its accounts are dead.
    """

    __slots__ = (
        "_attempts_left",
        "_hedged",
        "_last_resort",
        "_queue",
        "_refusing",
        "_repeats",
        "_reported",
        "_request",
        "_rule",
        "_silent",
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
        self.deadline = plan.ends(record.started, stream=record.stream)
        self._rule = plan.retry
        self._used_fallbacks: tuple[str, ...] = ()
        self._tenant = tenant
        self._queue: tuple[Candidate, ...] = plan.candidates
        self._last_resort = LastResort(plan.unavailable, plan.retry)
        self._repeats = 0
        self._attempts_left = plan.retry.attempts
        self._hedged = False
        self._refusing: tuple[Breaker, ...] = ()
        self._silent: tuple[Breaker, ...] = ()
        self._reported: tuple[Candidate, GatewayError] | None = None
        if plan.hedging is not None:
            plan.hedging.budget.firsts.add(record.started)

    async def first(self) -> "PrimaryAttempt":
        """Start the first attempt; wait for a backend if none is healthy.

        Raises Unavailable if none can be tried in time, and DeadlineExceeded.
        """
        self._skip_unavailable(now())
        if not self._queue and not await self._use_last_resort():
            raise no_backend_available(self._last_resort.untried or self.plan.candidates, now())
        return self._start()

    def on_first_started(self) -> None:
        """The first attempt has started without this object, in `first_attempt`."""
        self._attempts_left -= 1

    async def next(self, failed: "PrimaryAttempt") -> "PrimaryAttempt":
        """Start the attempt after one that may fail over. Raises the failure if there is none."""
        assert failed.error is not None
        await self._choose_next(failed, failed.error)
        return self._start()

    def hedge(self) -> Attempt | None:
        """Start a parallel attempt at the next backend; at most once per request.

        `None` if no other backend is available or the hedging budget is spent. A backend that
        lacks a field that the first one honours is skipped: latency does not justify a lesser
        answer.
        """
        hedging, at = self.plan.hedging, now()
        if self._hedged or self._attempts_left <= 0 or hedging is None or at >= self.deadline:
            return None
        complete = self._queue[0].complete
        for index in range(1, len(self._queue)):
            other = self._queue[index]
            if other.breaker.is_available(at) and not (complete and not other.complete):
                break
        else:
            return None
        if not hedging.budget.take(at):
            return None
        self._hedged = True
        self._attempts_left -= 1
        self._queue = self._queue[:index] + self._queue[index + 1 :]
        hedge = Attempt(*self._fields(other, at))
        hedge.entry.hedge = True
        return begun(hedge)

    def continue_with(self, survivor: Candidate) -> None:
        """Of two parallel attempts the first has ended, and the hedge continues."""
        self._queue = survivor, *self._queue[1:]
        self._repeats = 0

    def refund(self, candidate: Candidate, error: GatewayError) -> None:
        """Give back a failed attempt that does not count; once per backend that refuses."""
        if costs_an_attempt(error, wildcard=candidate.backend.model == "*"):
            return
        if not isinstance(error, InvalidRequest):
            if candidate.breaker in self._refusing:
                return
            self._refusing += (candidate.breaker,)
            self.record.uncounted += 1
        self._attempts_left += 1

    def may_fail_over(self, error: GatewayError) -> bool:
        """Whether another attempt may follow, if a backend is left."""
        return may_fail_over(error, self._rule) or (
            error.code not in self._used_fallbacks and any(self.plan.error_fallback(error.code))
        )

    async def _choose_next(self, failed: "PrimaryAttempt", error: GatewayError) -> None:
        """Put the next candidate at the head of the queue; raise the failure if there is none."""
        self.refund(failed.current.candidate, error)
        if self._reported is None or 0 < weight_of(error) >= weight_of(self._reported[1]):
            self._reported = failed.current.candidate, error
        if not self._use_error_fallback(error):
            if await self._retry(failed, error):
                return
            self._queue = self._queue[1:]
        self._repeats = 0
        self._skip_unavailable(now())
        if self._attempts_left > 0 and (self._queue or await self._use_last_resort()):
            return
        candidate, failure = self._reported
        self.record.backend = candidate.name
        report_changes(candidate, self.record)
        raise failure

    async def _retry(self, failed: "PrimaryAttempt", error: GatewayError) -> bool:
        """Whether to ask the same backend again; returns after the pause if so.

        No retry after a 429 (but `waits_for`) or a timeout while another backend can be asked, nor
        if the backend stays unavailable for longer than the pause. The last attempt is reserved for
        an unhealthy backend that has not been asked, if there is one. A backend that used up a
        limit of time twice is not asked a third time: each costs minutes, and all of its tokens.
        """
        at, others = now(), len(self._queue) - 1
        candidate = failed.current.candidate
        backend, breaker = candidate.backend, candidate.breaker
        retryable = may_retry(error, self._rule)
        if isinstance(error, UpstreamSilent):
            if candidate.breaker in self._silent:
                retryable = False
                self._last_resort.give_up(candidate)
            self._silent += (candidate.breaker,)
        alone = not others and not self._last_resort.untried
        wait = pause(error, self._rule, self._repeats, random.random(), alone=alone)
        if retryable:
            busy = isinstance(error, UpstreamBusy)
            self._last_resort.on_failure(candidate, not_before=at + wait, busy=busy)
        reserved = 1 if self._last_resort.any_in_time(at, self.deadline) else 0
        silent = others + reserved and isinstance(error, UpstreamTimeout)
        if silent or (others and not waits_for(candidate, error, self._queue[1:], self._rule)):
            return False
        repeat = (
            retryable
            and self._attempts_left > others + reserved
            and wait <= self._rule.max_backoff_s
            and at + wait < self.deadline
            and breaker.available_in(at) <= wait
            and backend.budget.take(at)
        )
        if not repeat:
            return False
        self._repeats += 1
        await asyncio.sleep(wait + TIMER_S)  # a lower bound, but timers fire early
        return breaker.is_available(now())

    async def _use_last_resort(self) -> bool:
        """Whether an unhealthy backend can be tried in time; if so, it becomes the queue."""
        choice = await self._last_resort.next(self._attempts_left, self.deadline)
        if choice is None:
            return False
        self._repeats = 0 if choice.tried is None else choice.tried.times
        self._queue = (choice.candidate,)
        return True

    def _skip_unavailable(self, at: float) -> None:
        """Move unavailable candidates from the head of the queue to the last resort."""
        while self._queue and not self._queue[0].breaker.is_available(at):
            self._last_resort.untried.append(self._queue[0])
            self._queue = self._queue[1:]

    def _use_error_fallback(self, error: GatewayError) -> bool:
        """Replace the queue by the `fallback_by_error` of this code, once per code.

        Raises the error if no attempt is left.
        """
        if error.code in self._used_fallbacks:
            return False
        self._used_fallbacks += (error.code,)
        others = self.plan.error_fallback(error.code)
        if not others:
            return False
        if self._attempts_left <= 0:
            raise error
        self._queue, self._last_resort = others, LastResort((), self._rule)
        return True

    def _start(self) -> "PrimaryAttempt":
        candidate, at = self._queue[0], now()
        if at >= self.deadline:
            raise DeadlineExceeded(PASSED)
        if self._repeats == 0:
            candidate.backend.budget.firsts.add(at)
        self._attempts_left -= 1
        return begun(PrimaryAttempt(*self._fields(candidate, at), sequence=self))

    def _fields(self, candidate: Candidate, at: float) -> _AttemptFields:
        probe = candidate.breaker.begin(at)
        entry = start_attempt(candidate, self.record, at)
        call = Call(
            model=candidate.model,
            deadline=self.deadline,
            request_id=self.record.request_id,
            tenant=self._tenant,
            holder=self.record.holder,
            level=AT_ONCE if probe else self.record.level,
            room=self.record.room,
            large=self.record.large,
            longest_prompt=candidate.longest_prompt,
            reasons=candidate.reasons,
            trace=None if self.record.trace is None else self.record.trace.start_attempt(at),
            drawn=self.record.drawn,
            pool=b""
            if candidate.backend.pool is None
            else candidate.backend.pool.lines(self._request, candidate.request, self.record),
            sending=entry,
        )
        return candidate, self._request, call, self.record, entry, at, self.plan, probe


class PrimaryAttempt(Attempt, eq=False):
    """An attempt whose answer becomes the request's, unless its hedge replaces it.

    The pipeline calls `commit` when the client is about to receive content, and at the end
    `succeed` of the current attempt, or `should_fail_over` with the error.

    sequence: `None` for the first attempt, until `rest` needs it.
    replacement: the hedge that has replaced it.
    error:   what ended it, if another attempt follows.
    """

    sequence: AttemptSequence | None = None
    replacement: Attempt | None = None
    error: GatewayError | None = None

    @property
    def current(self) -> Attempt:
        """This attempt, or the hedge that has replaced it."""
        return self.replacement or self

    @property
    def rest(self) -> AttemptSequence:
        """The sequence that starts the attempts after this one; created on first use."""
        if self.sequence is None:
            self.sequence = AttemptSequence(
                self.plan, self.client_request, self.record, self.call.tenant
            )
            self.sequence.on_first_started()
        return self.sequence

    def commit(self) -> None:
        """The client is about to receive content: from now on no other backend may answer."""
        self.committed = True
        self.current.on_first_content(now())

    def replace_with(self, hedge: Attempt) -> None:
        """This attempt has failed or lost the race; its hedge continues in its place."""
        self.replacement = hedge
        self.rest.continue_with(hedge.candidate)

    def should_fail_over(self, error: BaseException) -> bool:
        """Record the failure; true if another attempt may follow.

        Raises DeadlineExceeded if the request's deadline has passed.
        """
        at = now()
        if isinstance(error, UpstreamError) and error.usage is not None:
            self.record.usage, self.record.usage_at = error.usage, self.record.deltas
        self.current.fail(error, at)
        queued = isinstance(error, ConnectionsInUse)
        late = at >= self.rest.deadline - TIMER_S
        if late and (queued or isinstance(error, UpstreamError)):
            why = f"{PASSED}; it waited for a connection: {error}" if queued else PASSED
            raise DeadlineExceeded(why) from error
        if (
            not self.committed
            and isinstance(error, GatewayError)
            and (self.rest.may_fail_over(error) or (queued and self.current.probe))
        ):
            release_traceback(error)
            self.error = error
            return True
        return False


def first_attempt(
    plan: Plan, request: Request, record: RequestRecord, tenant: str
) -> PrimaryAttempt | None:
    """Start the first attempt of a request without an `AttemptSequence`.

    `None` if `AttemptSequence.first` has to do it: no backend is available, so that it may have to
    wait, or the circuit is not closed, or the plan hedges. Raises DeadlineExceeded.
    """
    # A copy of `AttemptSequence.first`, `_start` and `_fields` inlined: nearly every request needs
    # one attempt, and saves the sequence and its calls (docs/adr/0016). Keep the two in step.
    candidates = plan.candidates
    if not candidates or plan.hedging is not None:
        return None
    candidate = candidates[0]
    if candidate.breaker.open_until is not None:
        return None
    at = now()
    deadline = record.started + (plan.stream_deadline_s if record.stream else plan.deadline_s)
    if at >= deadline:
        raise DeadlineExceeded(PASSED)
    # `SlidingCount.add` inlined: one call less per request.
    firsts = (backend := candidate.backend).budget.firsts
    if at >= firsts.over_at:
        firsts.advance(at)
    firsts.current += 1
    entry = start_attempt(candidate, record, at)
    call = Call(
        model=candidate.model,
        deadline=deadline,
        request_id=record.request_id,
        tenant=tenant,
        holder=record.holder,
        level=record.level,
        room=record.room,
        large=record.large,
        longest_prompt=candidate.longest_prompt,
        reasons=candidate.reasons,
        trace=None if record.trace is None else record.trace.start_attempt(at),
        drawn=record.drawn,
        pool=b""
        if backend.pool is None
        else backend.pool.lines(request, candidate.request, record),
        sending=entry,
    )
    # By position: faster than by keyword.
    attempt = PrimaryAttempt(candidate, request, call, record, entry, at, plan)
    return attempt if backend.siblings is None else begun(attempt)
