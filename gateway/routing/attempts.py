"""The tries of one request, one after the other: whom to ask next, and when to give up."""

import asyncio
import random
from types import TracebackType

from gateway.clock import now
from gateway.routing.candidate import Candidate
from gateway.routing.plan import Plan
from gateway.routing.retry import may_move_on, may_repeat, pause
from gateway.routing.tries import TIMER_S, Try
from gateway.routing.trip import Trip
from gateway.upstream.base import Call
from schemas.errors import (
    DeadlineExceeded,
    GatewayError,
    InvalidRequest,
    Unavailable,
    UpstreamBusy,
    UpstreamError,
    UpstreamTimeout,
)

FAIR_SHARE = 0.5
"""Of the operator's deadline: a backend that had less before the request's cut it has not failed.

A client that is in a hurry, or the backends before it, left it too little time to tell anything.
"""


class Attempts:
    """Gives tries, the `first` and the `next`; each is a context manager that books its outcome.

    A failure that may move on is swallowed by the context, and `next` goes on with the same
    backend (after a pause) or another. Every other failure leaves the context as raised.
    When nobody is left to ask, the last failure is raised, or, where no backend had words for the
    request, the first refusal. A refusal takes none of the attempts, for nothing was sent.
    """

    __slots__ = (
        "_fair_s",
        "_hedged",
        "_left",
        "_queue",
        "_repeats",
        "_rule",
        "_taken",
        "_tenant",
        "_told",
        "deadline",
        "plan",
        "trip",
    )

    def __init__(self, plan: Plan, trip: Trip, *, tenant: str = "") -> None:
        self.plan = plan
        self.trip = trip
        self.deadline = trip.started + plan.deadline_s
        self._rule = plan.retry
        self._fair_s = plan.patience_s * FAIR_SHARE
        self._taken: tuple[str, ...] = ()
        self._tenant = tenant
        self._queue = plan.candidates
        self._repeats = 0
        self._left = plan.retry.attempts
        self._hedged = False
        self._told: OneTry | None = None
        if plan.hedging is not None:
            plan.hedging.budget.first(trip.started)

    def first(self) -> "OneTry":
        """Raises Unavailable where another request has become the probe of every backend."""
        breaker = self._queue[0].backend.breaker
        if breaker.open_until is not None and breaker.probing:
            self._skip_the_unfit(now())
            if not self._queue:
                raise Unavailable("every backend is being probed", retry_after=1.0)
        return self._turn()

    def begun(self) -> None:
        """The first was given without this object: see `first_of`."""
        self._left -= 1

    async def next(self, failed: "OneTry") -> "OneTry":
        """After one whose failure was swallowed. Raises it where nobody is left to ask."""
        assert failed.error is not None
        await self._choose_next(failed, failed.error)
        return self._turn()

    def hedge(self) -> Try | None:
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
            if other.backend.breaker.allows(at) and not (whole and other.dropped):
                break
        else:
            return None
        if not hedging.budget.take(at):
            return None
        self._hedged = True
        self._left -= 1
        beside = self._queue[place]
        self._queue = self._queue[:place] + self._queue[place + 1 :]
        return self._try(beside, hedge=True)

    def go_on_with(self, survivor: Candidate) -> None:
        """Of two that were asked at once, this one, the hedge, is left."""
        self._queue = survivor, *self._queue[1:]
        self._repeats = 0

    def give_back(self) -> None:
        """A try in which nothing was sent takes no attempt."""
        self._left += 1

    def may_move_on(self, error: GatewayError) -> bool:
        """Whether somebody else may be asked, and will be if there is one."""
        return may_move_on(error, self._rule) or (
            error.code not in self._taken and any(self.plan.detour(error.code))
        )

    async def _choose_next(self, failed: "OneTry", error: GatewayError) -> None:
        """Put the next to ask at the head of the queue; raises the failure when there is none."""
        refused = isinstance(error, InvalidRequest)
        if refused:
            self.give_back()
        if self._told is None or not refused:
            self._told = failed
        if self._detour(error) or await self._repeat(failed, error):
            return
        self._repeats = 0
        self._queue = self._queue[1:]
        self._skip_the_unfit(now())
        if self._left <= 0 or not self._queue:
            told = self._told.current.candidate
            self.trip.backend, self.trip.dropped = told.name, told.told
            raise self._told.error or error

    async def _repeat(self, failed: "OneTry", error: GatewayError) -> bool:
        """Whether the same backend is asked again; if so, the pause before it is over.

        Not one that is busy, or let us wait in vain, while others can be asked at once; nor one
        that rests for longer than the pause, for whatever reason.
        """
        at, others = now(), len(self._queue) - 1
        backend = failed.current.candidate.backend
        if others and isinstance(error, UpstreamBusy | UpstreamTimeout):
            return False
        wait = pause(error, self._rule, self._repeats, random.random())
        repeat = (
            self._left > others
            and may_repeat(error, self._rule)
            and wait <= self._rule.max_backoff_s
            and at + wait < self.deadline
            and backend.breaker.available_in(at) <= wait
            and backend.budget.take(at)
        )
        if not repeat:
            return False
        self._repeats += 1
        await asyncio.sleep(wait + TIMER_S)  # a pause is a lower bound
        return backend.breaker.allows(now())

    def _skip_the_unfit(self, at: float) -> None:
        while self._queue and not self._queue[0].backend.breaker.allows(at):
            self._queue = self._queue[1:]

    def _detour(self, error: GatewayError) -> bool:
        """Put those in the queue who may answer after such a failure, once for each code."""
        if error.code in self._taken:
            return False
        self._taken += (error.code,)
        others = self.plan.detour(error.code)
        if not others:
            return False
        if self._left <= 0:
            raise error
        self._repeats = 0
        self._queue = others
        return True

    def _turn(self) -> "OneTry":
        candidate = self._queue[0]
        if self._repeats == 0:
            candidate.backend.budget.first(now())
        self._left -= 1
        return OneTry(self.plan, self.trip, self._tenant, self._try(candidate), self)

    def _try(self, candidate: Candidate, *, hedge: bool = False) -> Try:
        call = Call(
            model=candidate.model,
            deadline=self.deadline,
            request_id=self.trip.request_id,
            tenant=self._tenant,
        )
        request = candidate.request or self.plan.request
        return Try(candidate, request, call, self.trip, fair_s=self._fair_s, hedge=hedge)


class OneTry:
    """One turn: a try at one backend, or two at once of which one wins; `current` is who is left.

    `commit` it once the client is about to see content.
    """

    __slots__ = ("_attempts", "_tenant", "committed", "current", "error", "plan", "trip")

    def __init__(
        self, plan: Plan, trip: Trip, tenant: str, first: Try, attempts: Attempts | None = None
    ) -> None:
        """attempts: `None` for the request's first try, until they are asked for."""
        self.plan = plan
        self.trip = trip
        self._tenant = tenant
        self._attempts = attempts
        self.current = first
        self.committed = False
        self.error: GatewayError | None = None

    @property
    def attempts(self) -> Attempts:
        """What follows when this one fails."""
        if self._attempts is None:
            self._attempts = Attempts(self.plan, self.trip, tenant=self._tenant)
            self._attempts.begun()
        return self._attempts

    def commit(self) -> None:
        self.committed = True
        self.current.shown(now())

    def stay_with(self, hedge: Try) -> None:
        """The first has fallen out; whoever was asked beside it is the one now."""
        self.current = hedge
        self.attempts.go_on_with(hedge.candidate)

    def __enter__(self) -> "OneTry":
        at = now()
        if at >= self.current.call.deadline:
            raise DeadlineExceeded("the request's deadline has passed")
        self.current.begin(at)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> bool:
        at = now()
        if error is None:
            self.current.succeed(at, committed=self.committed)
            return False
        self.current.fail(error, at, committed=self.committed)
        if isinstance(error, UpstreamError) and at >= self.attempts.deadline - TIMER_S:
            raise DeadlineExceeded("the request's deadline has passed") from error
        if (
            not self.committed
            and isinstance(error, GatewayError)
            and self.attempts.may_move_on(error)
        ):
            self.error = error
            return True
        return False


def first_of(plan: Plan, trip: Trip, tenant: str) -> OneTry:
    """The first try of a request. Raises as `Attempts.first` does.

    Nearly every request needs no other, so what keeps account of several is made when one fails.
    """
    candidate = plan.candidates[0]
    backend = candidate.backend
    if plan.hedging is not None or backend.breaker.open_until is not None:
        return Attempts(plan, trip, tenant=tenant).first()
    backend.budget.first(now())
    call = Call(
        model=candidate.model,
        deadline=trip.started + plan.deadline_s,
        request_id=trip.request_id,
        tenant=tenant,
    )
    fair_s = plan.patience_s * FAIR_SHARE
    one = Try(candidate, candidate.request or plan.request, call, trip, fair_s=fair_s)
    return OneTry(plan, trip, tenant, one)
