"""An attempt: one backend is asked once. What its start and its end change.

Two ideas, two names. An *attempt* (`Attempt`) is one backend that is asked once: it lives while the
backend answers, and its end changes the backend's circuit breaker and load. A *record* is what is
kept of it: an `AttemptRecord` per attempt, in the `RequestRecord` that the access log, the metrics
and the response headers are made of.
"""

import logging
import random
from collections.abc import AsyncGenerator, Sequence
from typing import TypeVar

from msgspec import Struct

from strowger_gateway.gateway.backends.upstream.base import Call, task_upstream_of
from strowger_gateway.gateway.backends.upstream.sending import is_unread
from strowger_gateway.gateway.config.schema.failover import RetryRule
from strowger_gateway.gateway.platform.clock import now
from strowger_gateway.gateway.routing.execution.undo_repairs import undone
from strowger_gateway.gateway.routing.planning.candidate import Candidate
from strowger_gateway.gateway.routing.planning.plan import Plan
from strowger_gateway.gateway.routing.planning.request_facts import estimated_tokens
from strowger_gateway.gateway.routing.request_record import (
    AttemptRecord,
    RequestRecord,
    counts_of,
    milliseconds,
)
from strowger_gateway.gateway.routing.resilience.retry import concerns_backend
from strowger_gateway.gateway.routing.slowness.pace import Work, work_class
from strowger_gateway.schemas.answers import Embeddings
from strowger_gateway.schemas.errors import (
    GatewayError,
    InvalidRequest,
    UpstreamBusy,
    UpstreamError,
    UpstreamOverloaded,
    UpstreamRefused,
    UpstreamTimeout,
)
from strowger_gateway.schemas.events import Event
from strowger_gateway.schemas.requests import EmbeddingsRequest, Request, TokenRequest
from strowger_gateway.schemas.tasks.task import TaskAnswer, TaskRequest, Unsampled
from strowger_gateway.schemas.usage import tier_in

TIMER_S = 0.001
"""Timers are rounded to whole milliseconds and may fire this much too early."""

FAIR_SHARE = 0.5
"""Share of the operator's deadline that a backend must have had before a timeout at the request's
own deadline counts as its failure. With less, the client's short timeout or the backends tried
before it left too little time to conclude anything."""

OWN_SHARE = 0.1
"""Share of an attempt that the gateway's own queues may take before a timeout says nothing about
the backend."""

_log = logging.getLogger("strowger.routing")
_AnyAttempt = TypeVar("_AnyAttempt", bound="Attempt")


class Attempt(Struct, eq=False):
    """One backend that is asked once. End it with `succeed`, `fail` or `lose_race`, exactly once.

    The end updates the record, the backend's load and its circuit breaker. A Struct created by
    position, because every request creates one and it takes half the time of another class's
    object (docs/adr/0016).

    client_request: as the client sent it.
    record:  of the whole request. entry: this attempt's record in it.
    started: in the clock's seconds.
    probe:   it probes a circuit that is not closed.
    committed: the client has received content of it, or is about to.
    late:    it waits for its first token, and counts as slow already.
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
    late: bool = False

    @property
    def request(self) -> Request:
        """The request as the backend gets it."""
        return self.candidate.request or self.client_request

    def mark_as_server(self) -> None:
        """Report this backend to the client as the one that answers, in the response headers."""
        self.record.backend = self.candidate.name
        report_changes(self.candidate, self.record)

    def on_first_content(self, at: float) -> None:
        """The first content is about to reach the client. at: the clock's seconds.

        A probe that has content closes the circuit now. Waiting for the end of the answer would
        keep out other requests until then.
        """
        self.committed = True
        seconds = at - self.started - self.entry.waited_s
        backend = self.candidate.backend
        latency = backend.load.first_content
        if seconds > latency.value or at >= latency.due:
            latency.add(seconds, at)
            if backend.timed:
                self._note_time(seconds, at)
        if self.probe:
            self.probe = False
            self.candidate.breaker.on_probe_content(at)

    def succeed(self, at: float) -> None:
        """The answer is complete. at: the clock's seconds."""
        candidate, entry, record = self.candidate, self.entry, self.record
        backend, breaker = candidate.backend, candidate.breaker
        load, seconds = backend.load, at - self.started
        entry.outcome = "ok"
        # `milliseconds` inlined: nearly every request ends here, and saves the call.
        entry.ms = (seconds * 1e6 + 0.5) // 1.0 / 1e3
        load.in_flight -= 1
        if len(record.attempts) > 1:
            record.on_attempt_end(at)
        if not self.committed:
            latency = load.answer
            seconds -= entry.waited_s
            # The first test of `PeakAverage.add` inlined: at more than one answer per millisecond
            # most change nothing, and save the call.
            if seconds > latency.value or at >= latency.due:
                latency.add(seconds, at)
                if backend.timed:
                    self._note_time(seconds, at)
        if self.probe or breaker.unsettled:
            breaker.succeed(at, probe=self.probe)
            return
        # `Breaker.succeed` of a closed circuit, with `SlidingCount.add` inlined: it only counts
        # one more outcome, which saves two calls per request.
        outcomes = breaker.outcomes
        if at >= outcomes.over_at:
            outcomes.advance(at)
        outcomes.current += 1

    def fail(self, error: BaseException, at: float) -> None:
        """The attempt has failed, or was cancelled. error: what ended it."""
        breaker = self.candidate.breaker
        self._close(error, at)
        breaker.failing_on = (
            (error, self.client_request) if isinstance(error, GatewayError) else None
        )
        try:
            self._judge(error, at)
        finally:
            breaker.failing_on = None

    def _judge(self, error: BaseException, at: float) -> None:
        """Count a failure for or against the backend."""
        breaker, probe = self.candidate.breaker, self.probe
        match error:
            case UpstreamError(counts=False):
                breaker.ignore_outcome(probe=probe)
            case UpstreamBusy():
                if error.retry_after is None:
                    breaker.deprioritise(at, random.random(), probe=probe)
                else:
                    breaker.cool_down(at, error.retry_after, probe=probe)
            case UpstreamRefused():
                self._on_refusal(error, at)
            case UpstreamTimeout() if self._had_too_little_time(at):
                if not self.committed:
                    self._raise_latency(at)
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

    def _on_refusal(self, error: UpstreamRefused, at: float) -> None:
        """Set the backend aside, if no client can have caused the refusal."""
        breaker = self.candidate.breaker
        if not refuses_all(self.candidate, error):
            breaker.ignore_outcome(probe=self.probe)
            return
        set_aside = breaker.refuse(
            at,
            self.record.request_id,
            certain=error.about == "account",
            retry_after=error.retry_after,
            probe=self.probe,
            draw=random.random(),
        )
        if set_aside:
            _log.warning(
                "%s: its vendor refuses the operator's account, key or model, so it gets no "
                "requests for %.0f s: %s",
                self.entry.pattern or self.candidate.name,
                breaker.refused_for(at),
                error.logged,
            )

    def lose_race(self, faster_s: float | None = None) -> None:
        """The other of two attempts was faster: not a failure, but a lower bound of the latency.

        faster_s: the seconds that the other one took, if it began later.
        """
        at = now()
        self._close(None, at)
        self.entry.role = "hedge"
        self._raise_latency(at)
        siblings = self.candidate.backend.siblings
        if siblings is not None and faster_s is not None and not self._waited_here(at):
            seconds = at - self.started - self.entry.waited_s
            siblings.note_lost(self, seconds, faster_s, at)
        self.candidate.breaker.ignore_outcome(probe=self.probe)

    def fail_primary(self, error: BaseException, at: float) -> None:
        """`fail` for the first of two attempts; its usage goes into its own entry.

        The numbers of the request itself are those of the hedge from now on.
        """
        self.fail(error, at)
        if isinstance(error, UpstreamError):
            self.entry.usage = counts_of(error.usage)

    def fail_hedge(self, error: BaseException, at: float) -> None:
        """`fail_primary` for the hedge, whose answer will not be the request's."""
        self.fail_primary(error, at)
        self.entry.role = "hedge"

    def _had_too_little_time(self, at: float) -> bool:
        """Whether the request's deadline cut it before it had its `FAIR_SHARE` of the time.

        Or the gateway's own queues took more than their `OWN_SHARE`.
        """
        if self._waited_here(at):
            return True
        fair_s = self.plan.operator_deadline_s * FAIR_SHARE
        return at >= self.call.deadline - TIMER_S and at - self.started < fair_s

    def _waited_here(self, at: float) -> bool:
        """Whether the gateway's own queues took more than their `OWN_SHARE` of its time."""
        return self.entry.waited_s > OWN_SHARE * (at - self.started)

    @property
    def peers(self) -> Sequence[Candidate]:
        """See slowness.siblings.TimedAttempt."""
        return self.plan.candidates

    @property
    def key(self) -> str:
        """The client's key, by its name."""
        return self.record.caller

    def work(self) -> Work:
        """The class of its work, as far as it is known now."""
        record, written = self.record, None
        if not record.stream:
            usage = record.usage
            reported = None if usage is None else usage.completion_tokens
            written = record.deltas if reported is None else reported
        request, tokens = self.client_request, record.estimated_prompt_tokens
        if tokens is None:
            tokens = estimated_tokens(request)
        return work_class(request, self.candidate.model, tokens, written)

    def _note_time(self, seconds: float, at: float) -> None:
        """Compare the time to its first token, or to its end, with a limit and what is normal.

        A probe that is too slow opens the circuit again, and is not a probe after that.
        """
        breaker, siblings = self.candidate.breaker, self.candidate.backend.siblings
        pace, slow_s = breaker.pace, breaker.rule.slow_s
        slow = slow_s is not None and seconds >= slow_s
        news = siblings is not None and (seconds >= pace.above or at >= pace.due)
        if not (slow or news) or self._waited_here(at):
            return
        if slow:
            breaker.slow(at, probe=self.probe, draw=random.random())
            self.probe = False
        if siblings is not None and news:
            siblings.note(self, seconds, at)

    def _raise_latency(self, at: float) -> None:
        load, request = self.candidate.backend.load, self.request
        stream = not isinstance(request, Unsampled) and request.stream
        seconds = at - self.started - self.entry.waited_s
        (load.first_content if stream else load.answer).at_least(seconds, at)

    def _close(self, error: BaseException | None, at: float) -> None:
        """Complete its entry, and its share of the load. error: `None` if it lost the race."""
        entry = self.entry
        if error is None:
            entry.outcome = "lost"
        else:
            entry.outcome = error.code if isinstance(error, GatewayError) else "cancelled"
            if isinstance(error, GatewayError) and is_unread(error):
                entry.unread = True
        entry.ms = milliseconds(at - self.started)
        self.candidate.backend.load.in_flight -= 1
        self.record.on_attempt_end(at)


def begun(attempt: _AnyAttempt) -> _AnyAttempt:
    """The attempt, of which the backend's siblings know from now on."""
    siblings = attempt.candidate.backend.siblings
    if siblings is not None:
        siblings.begin(attempt, attempt.started, stream=attempt.record.stream)
    return attempt


def weight_of(error: GatewayError) -> int:
    """How much an error says about the request's chances: the client gets one of the heaviest."""
    if isinstance(error, InvalidRequest):
        return 0
    return 1 if isinstance(error, UpstreamRefused) else 2


def waits_for(
    candidate: Candidate, error: GatewayError, others: Sequence[Candidate], rule: RetryRule
) -> bool:
    """Whether to ask the candidate again before the others, after a pause.

    After a 429 only if they are other models' and the vendor names a short time: then the pause is
    better than another model's answer.
    """
    if not isinstance(error, UpstreamBusy):
        return True
    if error.retry_after is None or error.retry_after > rule.wait_for_s:
        return False
    owner = candidate.backend.owner
    return not any(other.backend.owner == owner for other in others)


def refuses_all(candidate: Candidate, error: UpstreamRefused) -> bool:
    """Whether the backend would refuse other requests, too: no client can have caused it."""
    return concerns_backend(error, wildcard=candidate.backend.model == "*")


def start_attempt(candidate: Candidate, record: RequestRecord, at: float) -> AttemptRecord:
    """Record that a backend is asked from now on. The caller updates the breaker."""
    backend = candidate.backend
    backend.load.in_flight += 1
    attempts, entry = record.attempts, AttemptRecord(backend=candidate.name, unread=True)
    if backend.model == "*":
        entry.pattern = backend.name
    if backend.replica is not None:
        entry.replica = backend.replica.address
    if not attempts:
        record.upstream_since = at
    else:
        if record.deltas or record.usage is not None:
            record.charge_failed_attempt()
        if not record.attempt_running:
            record.upstream_since = at
        record.service_tier = record.requested_tier
    attempts.append(entry)
    record.backend = candidate.name
    if record.requested_tier:
        record.service_tier = _sent_tier(candidate, record.requested_tier)
    if candidate.dropped or candidate.omitted or record.dropped:
        record.dropped = candidate.reported_omissions
    if candidate.defaulted or record.defaulted:
        record.defaulted = candidate.defaulted
    if candidate.repaired or record.repaired:
        record.repaired = candidate.repaired
    return entry


def report_changes(candidate: Candidate, record: RequestRecord) -> None:
    """Report how the candidate's request differs from the client's, in the response headers."""
    record.dropped = candidate.reported_omissions
    record.defaulted = candidate.defaulted
    record.repaired = candidate.repaired


def _sent_tier(candidate: Candidate, requested: str) -> str:
    """The service tier that the backend is asked for: it may not get the client's field."""
    request = candidate.request
    if request is None or isinstance(request, TokenRequest):
        return requested
    return tier_in(request.extra) or ""


def events_of(attempt: Attempt) -> AsyncGenerator[list[Event], None]:
    """The events of the attempt's answer, in batches."""
    request, candidate = attempt.request, attempt.candidate
    assert not isinstance(request, Unsampled)
    upstream = candidate.backend.upstream
    if candidate.undo is None:
        return upstream.generate(request, attempt.call)
    return undone(upstream, request, attempt.call, candidate.undo)


async def vectors_of(attempt: Attempt) -> Embeddings:
    """The vectors of the attempt's answer."""
    request = attempt.request
    assert isinstance(request, EmbeddingsRequest)
    return await attempt.candidate.backend.upstream.embed(request, attempt.call)


async def task_answer_of(attempt: Attempt) -> TaskAnswer:
    """The attempt's answer to a request of `schemas/tasks`."""
    request = attempt.request
    assert isinstance(request, TaskRequest)
    performs = task_upstream_of(attempt.candidate.backend.upstream)
    assert performs is not None, "the backend's `Supports` has a task that it does not perform"
    return await performs.perform(request, attempt.call)
