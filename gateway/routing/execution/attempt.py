"""One backend being asked once: what is booked when that begins, and when it ends."""

import random
from collections.abc import AsyncGenerator

from msgspec import Struct

from gateway.clock import milliseconds, now
from gateway.routing.planning.candidate import Candidate
from gateway.routing.planning.plan import Plan
from gateway.routing.request_record import Attempt, Trip, counts_of
from gateway.upstream.base import Call
from schemas.answers import Embeddings
from schemas.errors import (
    GatewayError,
    InvalidRequest,
    UpstreamBusy,
    UpstreamError,
    UpstreamOverloaded,
    UpstreamTimeout,
)
from schemas.events import Event
from schemas.requests import EmbeddingsRequest, Request

TIMER_S = 0.001
"""Timers go by whole milliseconds, and may come that much too early."""

FAIR_SHARE = 0.5
"""Of the operator's deadline: a backend that had less before the request's cut it has not failed.

A client that is in a hurry, or the backends before it, left it too little time to tell anything.
"""


class Try(Struct, eq=False):
    """An attempt that `ask` has begun: end it by one of `succeed`, `fail` and `lose`.

    All of them count for the backend's health. A Struct, and made by position, for it is made in
    half the time of another class's object, and at every request.

    asked:   what the client asked for.
    record:  what will be known of it. started: the clock's seconds.
    probe:   of a breaker that is not closed.
    committed: its content has reached the client, or is about to.
    """

    candidate: Candidate
    asked: Request
    call: Call
    trip: Trip
    record: Attempt
    started: float
    plan: Plan
    probe: bool = False
    committed: bool = False

    @property
    def request(self) -> Request:
        """As the backend gets it."""
        return self.candidate.request or self.asked

    def tell(self) -> None:
        """The client hears that this backend is the one."""
        self.trip.backend = self.candidate.name
        self.trip.dropped = self.candidate.told
        self.trip.defaulted = self.candidate.defaulted

    def shown(self, at: float) -> None:
        """Its first content is about to reach the client.

        A probe has shown by then that the backend is back; until its end nobody would be let in.
        """
        self.committed = True
        self.candidate.backend.load.first.add(at - self.started, at)
        if self.probe:
            self.probe = False
            self.candidate.breaker.prove(at)

    def succeed(self, at: float) -> None:
        """Its answer is complete."""
        candidate, record, trip = self.candidate, self.record, self.trip
        breaker, load, seconds = candidate.breaker, candidate.backend.load, at - self.started
        record.outcome = "ok"
        record.ms = (seconds * 1e6 + 0.5) // 1.0 / 1e3  # as `milliseconds`, without the call
        load.in_flight -= 1
        if len(trip.attempts) > 1:
            trip.ended(at)
        if not self.committed:
            whole = load.whole
            if seconds > whole.value or at >= whole.due:
                whole.add(seconds, at)
        if self.probe or breaker.spares:
            breaker.succeed(at, probe=self.probe)
            return
        tried = breaker.tried
        if at >= tried.over_at:
            tried.go_on(at)
        tried.current += 1

    def fail(self, error: BaseException, at: float) -> None:
        """error: what ended it."""
        breaker, probe = self.candidate.breaker, self.probe
        self._settle(error, at)
        match error:
            case UpstreamBusy():
                if error.retry_after is None:
                    breaker.spare(at, random.random(), probe=probe)
                else:
                    breaker.rest(at, error.retry_after, probe=probe)
            case UpstreamTimeout() if self._hurried(at):
                if not self.committed:
                    self._was_late(at)
                breaker.abandon(probe=probe)
            case UpstreamError(counts=False):
                breaker.abandon(probe=probe)
            case UpstreamError():
                breaker.fail(at, probe=probe, draw=random.random())
                if isinstance(error, UpstreamOverloaded) and error.retry_after:
                    breaker.rest(at, error.retry_after, probe=False, limited=False)
            case GatewayError():
                self.record.refused = isinstance(error, InvalidRequest)
                breaker.abandon(probe=probe)
            case _:
                breaker.abandon(probe=probe)

    def lose(self) -> None:
        """Another was faster. That is no failure, but so long at least it would have taken."""
        at = now()
        self._settle(None, at)
        self.record.role = "hedge"
        self._was_late(at)
        self.candidate.breaker.abandon(probe=self.probe)

    def drop_out(self, error: BaseException, at: float) -> None:
        """Like `fail`, of one of two: the request's own numbers are about the other."""
        self.fail(error, at)
        if isinstance(error, UpstreamError):
            self.record.usage = counts_of(error.usage)

    def fall_out(self, error: BaseException, at: float) -> None:
        """Like `drop_out`, of a hedge whose answer will not be the request's."""
        self.drop_out(error, at)
        self.record.role = "hedge"

    def _hurried(self, at: float) -> bool:
        """Whether it ran into the request's deadline before it had had its fair time."""
        fair_s = self.plan.patience_s * FAIR_SHARE
        return at >= self.call.deadline - TIMER_S and at - self.started < fair_s

    def _was_late(self, at: float) -> None:
        load, request = self.candidate.backend.load, self.request
        stream = not isinstance(request, EmbeddingsRequest) and request.stream
        (load.first if stream else load.whole).at_least(at - self.started, at)

    def _settle(self, error: BaseException | None, at: float) -> None:
        """error: `None` where it has lost."""
        record = self.record
        if error is None:
            record.outcome = "lost"
        else:
            record.outcome = error.code if isinstance(error, GatewayError) else "cancelled"
        record.ms = milliseconds(at - self.started)
        self.candidate.backend.load.in_flight -= 1
        self.trip.ended(at)


def ask(candidate: Candidate, trip: Trip, at: float) -> Attempt:
    """Books that a backend is being asked from now on. Its breaker is the caller's business."""
    backend = candidate.backend
    backend.load.in_flight += 1
    if trip.deltas or trip.usage is not None:
        trip.set_aside()
    attempts, record = trip.attempts, Attempt(backend=candidate.name)
    if backend.model == "*":
        record.pattern = backend.name
    if not attempts or not trip.asking:
        trip.asking_since = at
    attempts.append(record)
    trip.backend = candidate.name
    if candidate.dropped or candidate.left_out or trip.dropped:
        trip.dropped = candidate.told
    if candidate.defaulted or trip.defaulted:
        trip.defaulted = candidate.defaulted
    return record


def generation(one: Try) -> AsyncGenerator[list[Event], None]:
    """The events of its answer."""
    request = one.request
    assert not isinstance(request, EmbeddingsRequest)
    return one.candidate.backend.upstream.generate(request, one.call)


async def embedding(one: Try) -> Embeddings:
    """The vectors of its answer."""
    request = one.request
    assert isinstance(request, EmbeddingsRequest)
    return await one.candidate.backend.upstream.embed(request, one.call)
