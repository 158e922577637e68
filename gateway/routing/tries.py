"""One backend being asked once: what is booked when that begins, and when it ends."""

import random
from collections.abc import AsyncGenerator

from msgspec import Struct

from gateway.clock import now
from gateway.routing.candidate import Candidate
from gateway.routing.trip import Attempt, Trip, counts_of
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


class Try(Struct, eq=False):
    """An attempt that `ask` has begun: end it by one of `succeed`, `fail` and `lose`.

    All of them count for the backend's health. A Struct, and made by position, for it is made in
    half the time of another class's object, and at every request.

    request: as the backend gets it.
    record:  what will be known of it. started: the clock's seconds.
    probe:   of a breaker that is not closed.
    fair_s:  cut by the request's deadline before so long, it has not failed.
    """

    candidate: Candidate
    request: Request
    call: Call
    trip: Trip
    record: Attempt
    started: float
    probe: bool
    fair_s: float

    def tell(self) -> None:
        """The client hears that this backend is the one."""
        self.trip.backend = self.candidate.name
        self.trip.dropped = self.candidate.told

    def shown(self, at: float) -> None:
        """Its first content is about to reach the client.

        A probe has shown by then that the backend is back; until its end nobody would be let in.
        """
        backend = self.candidate.backend
        backend.load.first.add(at - self.started, at)
        if self.probe:
            self.probe = False
            backend.breaker.prove(at)

    def succeed(self, at: float, *, committed: bool) -> None:
        """Its answer is complete. committed: the client saw content before that."""
        backend, record, trip = self.candidate.backend, self.record, self.trip
        breaker, load, seconds = backend.breaker, backend.load, at - self.started
        record.outcome = "ok"
        record.ms = int(seconds * 1e6 + 0.5) / 1e3
        load.in_flight -= 1
        trip.asking -= 1
        if trip.asking == 0:
            trip.upstream_s += at - trip.asking_since
        if not committed:
            load.whole.add(seconds, at)
        if self.probe or breaker.spares:
            breaker.succeed(at, probe=self.probe)
        else:
            breaker.went_well(at)

    def fail(self, error: BaseException, at: float, *, committed: bool) -> None:
        """error: what ended it. committed: the client saw content before that."""
        breaker, probe = self.candidate.backend.breaker, self.probe
        self._settle(at)
        match error:
            case UpstreamBusy():
                self.record.outcome = error.code
                if error.retry_after is None:
                    breaker.spare(at, random.random(), probe=probe)
                else:
                    breaker.rest(at, error.retry_after, probe=probe)
            case UpstreamTimeout() if self._hurried(at):
                self.record.outcome = error.code
                if not committed:
                    self._was_late(at)
                breaker.abandon(probe=probe)
            case UpstreamError():
                self.record.outcome = error.code
                breaker.fail(at, probe=probe)
                if isinstance(error, UpstreamOverloaded) and error.retry_after:
                    breaker.rest(at, error.retry_after, probe=False)
            case GatewayError():
                self.record.outcome = error.code
                self.record.refused = isinstance(error, InvalidRequest)
                breaker.abandon(probe=probe)
            case _:
                self.record.outcome = "cancelled"
                breaker.abandon(probe=probe)

    def lose(self) -> None:
        """Another was faster. That is no failure, but so long at least it would have taken."""
        at = now()
        self._settle(at)
        self.record.outcome = "lost"
        self.record.role = "hedge"
        self._was_late(at)
        self.candidate.backend.breaker.abandon(probe=self.probe)

    def drop_out(self, error: BaseException, at: float) -> None:
        """Like `fail`, of one of two: the request's own numbers are about the other."""
        self.fail(error, at, committed=False)
        if isinstance(error, UpstreamError):
            self.record.usage = counts_of(error.usage)

    def fall_out(self, error: BaseException, at: float) -> None:
        """Like `drop_out`, of a hedge whose answer will not be the request's."""
        self.drop_out(error, at)
        self.record.role = "hedge"

    def _hurried(self, at: float) -> bool:
        """Whether it ran into the request's deadline before it had had its fair time."""
        return at >= self.call.deadline - TIMER_S and at - self.started < self.fair_s

    def _was_late(self, at: float) -> None:
        load, request = self.candidate.backend.load, self.request
        stream = not isinstance(request, EmbeddingsRequest) and request.stream
        (load.first if stream else load.whole).at_least(at - self.started, at)

    def _settle(self, at: float) -> None:
        trip = self.trip
        self.record.ms = int((at - self.started) * 1e6 + 0.5) / 1e3
        self.candidate.backend.load.in_flight -= 1
        trip.asking -= 1
        if trip.asking == 0:
            trip.upstream_s += at - trip.asking_since


def ask(candidate: Candidate, trip: Trip, at: float) -> Attempt:
    """Books that a backend is being asked from now on. Its breaker is the caller's business."""
    backend = candidate.backend
    backend.load.in_flight += 1
    if trip.deltas or trip.usage is not None:
        trip.set_aside()
    record = Attempt(backend=candidate.name)
    if backend.model == "*":
        record.pattern = backend.name
    trip.attempts.append(record)
    if trip.asking == 0:
        trip.asking_since = at
    trip.asking += 1
    trip.backend = candidate.name
    trip.dropped = candidate.told if candidate.dropped or candidate.left_out else ()
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
