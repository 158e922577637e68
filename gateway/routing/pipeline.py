"""One request's way through its plan: attempt, hold until content, move on, give up.

Three verbs, one rule. `stream` commits to a backend with its first content; `whole` and `embed`
only when the answer is complete, so any failure up to its end can still move on.
"""

import asyncio
import random
from collections.abc import AsyncGenerator
from contextlib import aclosing
from types import TracebackType

from gateway.clock import now
from gateway.routing.intervals import Intervals
from gateway.routing.plan import Candidate, Plan
from gateway.routing.retry import may_move_on, may_repeat, pause
from gateway.routing.trip import Attempt, Trip
from gateway.upstream.base import Call
from schemas.answers import Answer, Embeddings, Fold
from schemas.errors import (
    DeadlineExceeded,
    GatewayError,
    InvalidRequest,
    Unavailable,
    UpstreamBusy,
    UpstreamError,
    UpstreamOverloaded,
)
from schemas.events import CONTENT, Event, Usage
from schemas.requests import EmbeddingsRequest, TokenRequest

_CONTENT = frozenset(CONTENT)


class Attempts:
    """Iterates over tries; each is a context manager that books its outcome.

    A failure that may move on is swallowed by the context, and the iteration goes on with the
    same backend (after a pause) or the next. Every other failure leaves the context as raised.
    When nobody is left to ask, the last failure is raised, or, where no backend had words for the
    request, the first refusal. A refusal takes none of the attempts, for nothing was sent.
    """

    def __init__(self, plan: Plan, trip: Trip, *, tenant: str = "") -> None:
        self.trip = trip
        self.deadline = trip.started + plan.deadline_s
        self._plan = plan
        self._rule = plan.retry
        self._taken: set[str] = set()
        self._tenant = tenant
        self._queue = list(plan.candidates)
        self._repeats = 0
        self._left = plan.retry.attempts
        self._last: OneTry | None = None
        self._told: OneTry | None = None

    def __aiter__(self) -> "Attempts":
        return self

    async def __anext__(self) -> "OneTry":
        if self._last is not None:
            if self._last.error is None:
                raise StopAsyncIteration
            await self._choose_next(self._last, self._last.error)
        candidate = self._queue[0]
        if self._repeats == 0:
            candidate.backend.budget.first(now())
        self._left -= 1
        self._last = OneTry(self, candidate)
        return self._last

    async def _choose_next(self, failed: "OneTry", error: GatewayError) -> None:
        """Put the next to ask at the head of the queue; raises the failure when there is none."""
        at = now()
        refused = isinstance(error, InvalidRequest)
        if refused:
            self._left += 1
        if self._told is None or not refused:
            self._told = failed
        others = len(self._queue) - 1
        if self._detour(error):
            return
        wait = pause(error, self._rule, self._repeats, random.random())
        repeat = (
            self._left > others
            and not (others and isinstance(error, UpstreamBusy))
            and may_repeat(error, self._rule)
            and wait <= self._rule.max_backoff_s
            and at + wait < self.deadline
            and failed.candidate.backend.budget.take(at)
        )
        if repeat:
            self._repeats += 1
            await asyncio.sleep(wait)
            return
        self._repeats = 0
        self._queue.pop(0)
        while self._queue and not self._queue[0].backend.breaker.allows(at):
            self._queue.pop(0)
        if self._left <= 0 or not self._queue:
            self.trip.backend = self._told.candidate.name
            self.trip.dropped = self._told.candidate.told
            raise self._told.error or error

    def _detour(self, error: GatewayError) -> bool:
        """Put those in the queue who may answer after such a failure, once for each code."""
        if error.code in self._taken:
            return False
        self._taken.add(error.code)
        others = self._plan.detour(error.code)
        if not others:
            return False
        if self._left <= 0:
            raise error
        self._repeats = 0
        self._queue = list(others)
        return True

    def call(self, candidate: Candidate) -> Call:
        return Call(
            model=candidate.model,
            deadline=self.deadline,
            request_id=self.trip.request_id,
            tenant=self._tenant,
        )

    def may_move_on(self, error: GatewayError) -> bool:
        """Whether somebody else may be asked, and will be if there is one."""
        return may_move_on(error, self._rule) or (
            error.code not in self._taken and any(self._plan.detour(error.code))
        )


class OneTry:
    """One try at one backend. `commit` it once the client is about to see content."""

    def __init__(self, attempts: Attempts, candidate: Candidate) -> None:
        self.candidate = candidate
        self.call = attempts.call(candidate)
        self.committed = False
        self.error: GatewayError | None = None
        self._attempts = attempts
        self._breaker = candidate.backend.breaker
        self._load = candidate.backend.load

    def commit(self) -> None:
        at = now()
        self.committed = True
        self._load.first.add(at - self._started, at)

    def __enter__(self) -> "OneTry":
        trip = self._attempts.trip
        self._started = now()
        if self._started >= self._attempts.deadline:
            raise DeadlineExceeded("the request's deadline has passed")
        self._probe = self._breaker.begin(self._started)
        self._load.in_flight += 1
        backend = self.candidate.backend
        pattern = backend.name if backend.model == "*" else ""
        if trip.deltas or trip.usage is not None:
            trip.set_aside()
        self._record = Attempt(backend=self.candidate.name, pattern=pattern)
        trip.attempts.append(self._record)
        trip.attempt_started = self._started
        trip.backend = self.candidate.name
        trip.dropped = self.candidate.told
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> bool:
        at = now()
        self._record.ms = (at - self._started) * 1e3
        self._attempts.trip.attempt_started = None
        self._load.in_flight -= 1
        match error:
            case None:
                self._record.outcome = "ok"
                if not self.committed:
                    self._load.whole.add(at - self._started, at)
                self._breaker.succeed(at, probe=self._probe)
                return False
            case UpstreamBusy():
                self._record.outcome = error.code
                self._breaker.rest(at, error.retry_after or 0.0, probe=self._probe)
            case UpstreamError():
                self._record.outcome = error.code
                self._breaker.fail(at, probe=self._probe)
                if isinstance(error, UpstreamOverloaded) and error.retry_after:
                    self._breaker.rest(at, error.retry_after, probe=False)
                if at >= self._attempts.deadline:
                    raise DeadlineExceeded("the request's deadline has passed") from error
            case GatewayError():
                self._record.outcome = error.code
                self._record.refused = isinstance(error, InvalidRequest)
                self._breaker.abandon(probe=self._probe)
            case _:
                self._record.outcome = "cancelled"
                self._breaker.abandon(probe=self._probe)
        if (
            not self.committed
            and isinstance(error, GatewayError)
            and self._attempts.may_move_on(error)
        ):
            self.error = error
            return True
        return False


def _note(trip: Trip, batch: list[Event]) -> bool:
    """Book what a batch tells about the request; true if it shows the client something."""
    content = False
    for event in batch:
        if type(event) in _CONTENT:
            content = True
            trip.deltas += 1
        elif isinstance(event, Usage):
            trip.usage = event
    if content and trip.first_content is None:
        trip.first_content = now()
    return content


async def stream(plan: Plan, trip: Trip, *, tenant: str = "") -> AsyncGenerator[list[Event], None]:
    """The answer in batches; the first holds everything up to the first content.

    Raises GatewayError before the first batch with nothing shown, or after it with the stream
    cut. Closing the generator early cancels the attempt.
    """
    async for attempt in Attempts(plan, trip, tenant=tenant):
        held: list[Event] = []
        request = attempt.candidate.request
        assert not isinstance(request, EmbeddingsRequest)
        intervals = Intervals(trip.started) if isinstance(request, TokenRequest) else None
        with attempt:
            source = attempt.candidate.backend.upstream.generate(request, attempt.call)
            async with aclosing(source):
                async for batch in source:
                    content = _note(trip, batch)
                    if intervals is not None:
                        batch = intervals.timed(batch, now())
                    if attempt.committed:
                        yield batch
                        continue
                    held.extend(batch)
                    if content:
                        attempt.commit()
                        yield held
            if not attempt.committed:
                yield held
            return
    raise Unavailable("no backend was left to try")


async def whole(plan: Plan, trip: Trip, *, tenant: str = "") -> Answer:
    """The complete answer of the first backend that completes one."""
    async for attempt in Attempts(plan, trip, tenant=tenant):
        fold = Fold()
        request = attempt.candidate.request
        assert not isinstance(request, EmbeddingsRequest)
        with attempt:
            source = attempt.candidate.backend.upstream.generate(request, attempt.call)
            async with aclosing(source):
                async for batch in source:
                    _note(trip, batch)
                    fold.add(batch)
            return fold.answer()
    raise Unavailable("no backend was left to try")


async def embed(plan: Plan, trip: Trip, *, tenant: str = "") -> Embeddings:
    """The vectors of the first backend that returns them."""
    async for attempt in Attempts(plan, trip, tenant=tenant):
        request = attempt.candidate.request
        assert isinstance(request, EmbeddingsRequest)
        with attempt:
            vectors = await attempt.candidate.backend.upstream.embed(request, attempt.call)
            trip.usage = vectors.usage
            return vectors
    raise Unavailable("no backend was left to try")
