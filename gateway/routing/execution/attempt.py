"""One backend being asked once: what is booked when that begins, and when it ends."""

import random
from collections.abc import AsyncGenerator

from msgspec import Struct

from gateway.clock import milliseconds, now
from gateway.routing.planning.candidate import Candidate
from gateway.routing.planning.plan import Plan
from gateway.routing.request_record import AttemptRecord, RequestRecord, counts_of
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


class Attempt(Struct, eq=False):
    """An attempt that `ask` has begun: end it by one of `succeed`, `fail` and `lose`.

    All of them count for the backend's health. A Struct, and made by position, for it is made in
    half the time of another class's object, and at every request.

    asked:   what the client asked for.
    entry:   its entry in the request's `record`. started: the clock's seconds.
    probe:   of a breaker that is not closed.
    committed: its content has reached the client, or is about to.
    """

    candidate: Candidate
    client_request: Request
    call: Call
    record: RequestRecord
    entry: AttemptRecord
    started: float
    plan: Plan
    probe: bool = False
    committed: bool = False

    @property
    def request(self) -> Request:
        """As the backend gets it."""
        return self.candidate.request or self.client_request

    def mark_as_server(self) -> None:
        """The client hears that this backend is the one."""
        self.record.backend = self.candidate.name
        self.record.dropped = self.candidate.reported_omissions
        self.record.defaulted = self.candidate.defaulted

    def on_first_content(self, at: float) -> None:
        """Its first content is about to reach the client.

        A probe has shown by then that the backend is back; until its end nobody would be let in.
        """
        self.committed = True
        self.candidate.backend.load.first_content.add(at - self.started, at)
        if self.probe:
            self.probe = False
            self.candidate.breaker.on_probe_content(at)

    def succeed(self, at: float) -> None:
        """Its answer is complete."""
        candidate, entry, record = self.candidate, self.entry, self.record
        breaker, load, seconds = candidate.breaker, candidate.backend.load, at - self.started
        entry.outcome = "ok"
        entry.ms = (seconds * 1e6 + 0.5) // 1.0 / 1e3  # as `milliseconds`, without the call
        load.in_flight -= 1
        if len(record.attempts) > 1:
            record.on_attempt_end(at)
        if not self.committed:
            whole = load.answer
            if seconds > whole.value or at >= whole.due:
                whole.add(seconds, at)
        if self.probe or breaker.deprioritised_count:
            breaker.succeed(at, probe=self.probe)
            return
        tried = breaker.outcomes
        if at >= tried.over_at:
            tried.advance(at)
        tried.current += 1

    def fail(self, error: BaseException, at: float) -> None:
        """error: what ended it."""
        breaker, probe = self.candidate.breaker, self.probe
        self._close(error, at)
        match error:
            case UpstreamBusy():
                if error.retry_after is None:
                    breaker.deprioritise(at, random.random(), probe=probe)
                else:
                    breaker.cool_down(at, error.retry_after, probe=probe)
            case UpstreamTimeout() if self._had_too_little_time(at):
                if not self.committed:
                    self._raise_latency(at)
                breaker.ignore_outcome(probe=probe)
            case UpstreamError(counts=False):
                breaker.ignore_outcome(probe=probe)
            case UpstreamError():
                breaker.fail(at, probe=probe, draw=random.random())
                if isinstance(error, UpstreamOverloaded) and error.retry_after:
                    breaker.cool_down(at, error.retry_after, probe=False, limited=False)
            case GatewayError():
                self.entry.refused = isinstance(error, InvalidRequest)
                breaker.ignore_outcome(probe=probe)
            case _:
                breaker.ignore_outcome(probe=probe)

    def lose_race(self) -> None:
        """Another was faster. That is no failure, but so long at least it would have taken."""
        at = now()
        self._close(None, at)
        self.entry.role = "hedge"
        self._raise_latency(at)
        self.candidate.breaker.ignore_outcome(probe=self.probe)

    def fail_primary(self, error: BaseException, at: float) -> None:
        """Like `fail`, of one of two: the request's own numbers are about the other."""
        self.fail(error, at)
        if isinstance(error, UpstreamError):
            self.entry.usage = counts_of(error.usage)

    def fail_hedge(self, error: BaseException, at: float) -> None:
        """Like `drop_out`, of a hedge whose answer will not be the request's."""
        self.fail_primary(error, at)
        self.entry.role = "hedge"

    def _had_too_little_time(self, at: float) -> bool:
        """Whether it ran into the request's deadline before it had had its fair time."""
        fair_s = self.plan.operator_deadline_s * FAIR_SHARE
        return at >= self.call.deadline - TIMER_S and at - self.started < fair_s

    def _raise_latency(self, at: float) -> None:
        load, request = self.candidate.backend.load, self.request
        stream = not isinstance(request, EmbeddingsRequest) and request.stream
        (load.first_content if stream else load.answer).at_least(at - self.started, at)

    def _close(self, error: BaseException | None, at: float) -> None:
        """error: `None` where it has lost."""
        entry = self.entry
        if error is None:
            entry.outcome = "lost"
        else:
            entry.outcome = error.code if isinstance(error, GatewayError) else "cancelled"
        entry.ms = milliseconds(at - self.started)
        self.candidate.backend.load.in_flight -= 1
        self.record.on_attempt_end(at)


def start_attempt(candidate: Candidate, record: RequestRecord, at: float) -> AttemptRecord:
    """Books that a backend is being asked from now on. Its breaker is the caller's business."""
    backend = candidate.backend
    backend.load.in_flight += 1
    if record.deltas or record.usage is not None:
        record.charge_failed_attempt()
    attempts, entry = record.attempts, AttemptRecord(backend=candidate.name)
    if backend.model == "*":
        entry.pattern = backend.name
    if not attempts or not record.attempt_running:
        record.upstream_since = at
    attempts.append(entry)
    record.backend = candidate.name
    if candidate.dropped or candidate.omitted or record.dropped:
        record.dropped = candidate.reported_omissions
    if candidate.defaulted or record.defaulted:
        record.defaulted = candidate.defaulted
    return entry


def events_of(one: Attempt) -> AsyncGenerator[list[Event], None]:
    """The events of its answer."""
    request = one.request
    assert not isinstance(request, EmbeddingsRequest)
    return one.candidate.backend.upstream.generate(request, one.call)


async def vectors_of(one: Attempt) -> Embeddings:
    """The vectors of its answer."""
    request = one.request
    assert isinstance(request, EmbeddingsRequest)
    return await one.candidate.backend.upstream.embed(request, one.call)
