"""One backend being asked once: what is booked when that begins, and when it ends."""

import random
from collections.abc import AsyncGenerator

from gateway.clock import now
from gateway.routing.candidate import Candidate
from gateway.routing.trip import Attempt, Trip
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


class Try:
    """`begin` it, then one of `succeed`, `fail` and `lose`; all count for the backend's health.

    request: as the backend gets it.
    fair_s: cut by the request's deadline before so long, it has not failed.
    hedge: it was begun beside another that is late.
    """

    __slots__ = (
        "_fair_s",
        "_hedge",
        "_probe",
        "_started",
        "_trip",
        "call",
        "candidate",
        "record",
        "request",
    )

    def __init__(
        self,
        candidate: Candidate,
        request: Request,
        call: Call,
        trip: Trip,
        *,
        fair_s: float,
        hedge: bool = False,
    ) -> None:
        self.candidate = candidate
        self.request = request
        self.call = call
        self._fair_s = fair_s
        self._trip = trip
        self._hedge = hedge

    def begin(self, at: float) -> None:
        candidate, trip = self.candidate, self._trip
        backend = candidate.backend
        self._started = at
        breaker = backend.breaker
        self._probe = breaker.open_until is not None and breaker.begin(at)
        backend.load.in_flight += 1
        if trip.deltas or trip.usage is not None:
            trip.set_aside()
        pattern = backend.name if backend.model == "*" else ""
        self.record = Attempt(backend=candidate.name, pattern=pattern, hedge=self._hedge)
        trip.attempts.append(self.record)
        if trip.asking == 0:
            trip.asking_since = at
        trip.asking += 1
        trip.backend = candidate.name
        trip.dropped = candidate.told if candidate.dropped or candidate.left_out else ()

    def tell(self) -> None:
        """The client hears that this backend is the one."""
        self._trip.backend = self.candidate.name
        self._trip.dropped = self.candidate.told

    def shown(self, at: float) -> None:
        """Its first content is about to reach the client.

        A probe has shown by then that the backend is back; until its end nobody would be let in.
        """
        backend = self.candidate.backend
        backend.load.first.add(at - self._started, at)
        if self._probe:
            self._probe = False
            backend.breaker.prove(at)

    def succeed(self, at: float, *, committed: bool) -> None:
        """Its answer is complete. committed: the client saw content before that."""
        backend = self.candidate.backend
        self._settle(at)
        self.record.outcome = "ok"
        if not committed:
            backend.load.whole.add(at - self._started, at)
        backend.breaker.succeed(at, probe=self._probe)

    def fail(self, error: BaseException, at: float, *, committed: bool) -> None:
        """error: what ended it. committed: the client saw content before that."""
        breaker, probe = self.candidate.backend.breaker, self._probe
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
        self.candidate.backend.breaker.abandon(probe=self._probe)

    def fall_out(self, error: BaseException, at: float) -> None:
        """Like `fail`, of a hedge whose answer will not be the request's."""
        self.fail(error, at, committed=False)
        self.record.role = "hedge"

    def _hurried(self, at: float) -> bool:
        """Whether it ran into the request's deadline before it had had its fair time."""
        return at >= self.call.deadline - TIMER_S and at - self._started < self._fair_s

    def _was_late(self, at: float) -> None:
        load, request = self.candidate.backend.load, self.request
        stream = not isinstance(request, EmbeddingsRequest) and request.stream
        (load.first if stream else load.whole).at_least(at - self._started, at)

    def _settle(self, at: float) -> None:
        trip = self._trip
        self.record.ms = round((at - self._started) * 1e3, 3)
        self.candidate.backend.load.in_flight -= 1
        trip.asking -= 1
        if trip.asking == 0:
            trip.upstream_s += at - trip.asking_since


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
