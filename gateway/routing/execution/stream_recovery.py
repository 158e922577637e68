"""A stream that goes on when its backend breaks off: another one continues the text shown so far.

The client sees one answer: one beginning, one end, and no text twice. Each attempt has its own
record, load and circuit breaker, as in `pipeline`. If no backend can continue, the stream ends in
the failure that broke it, as without recovery.
"""

import asyncio
import random
from collections.abc import Callable, Sequence
from contextlib import aclosing
from functools import partial

from msgspec.structs import replace

from strowger_gateway.gateway.backends.upstream.drawn_tokens import DrawnTokens
from strowger_gateway.gateway.config.schema.failover import RetryRule
from strowger_gateway.gateway.platform.clock import now
from strowger_gateway.gateway.routing.execution import pipeline
from strowger_gateway.gateway.routing.execution.continuation import (
    Continuation,
    continuable,
    continuation,
    exhausted,
    resumable,
    resumption,
)
from strowger_gateway.gateway.routing.execution.release_traceback import release_traceback
from strowger_gateway.gateway.routing.execution.seam import Seam
from strowger_gateway.gateway.routing.execution.shown_answer import ShownAnswer
from strowger_gateway.gateway.routing.planning.candidate import Candidate
from strowger_gateway.gateway.routing.planning.plan import Plan, no_error_fallback
from strowger_gateway.gateway.routing.request_record import AttemptRecord, RequestRecord
from strowger_gateway.gateway.routing.resilience.retry import may_fail_over, may_retry, pause
from strowger_gateway.schemas.errors import (
    DeadlineExceeded,
    GatewayError,
    UpstreamError,
    UpstreamLost,
    UpstreamStarting,
)
from strowger_gateway.schemas.events import Event, EventSink, EventSource, Finished
from strowger_gateway.schemas.requests import GenerateRequest

Announce = Callable[[str], None]
"""Gets the code of the failure after which the stream is continued."""


async def recovered_stream(
    plan: Plan,
    request: GenerateRequest,
    record: RequestRecord,
    *,
    tenant: str = "",
    announce: Announce,
) -> EventSource:
    """As `pipeline.stream`, but a failure after content is continued by another backend.

    announce: called before the first batch of a continuation.
    """
    answer = _Answer(plan, request, record, tenant)
    source = pipeline.stream(plan, request, record, tenant=tenant)
    first: list[Event] | None = None
    sink: EventSink | None = None
    while True:
        try:
            async with aclosing(source):
                if first is not None:
                    sink = yield first
                while not answer.ended:
                    try:
                        batch = await source.asend(answer.through(sink))
                    except StopAsyncIteration:
                        return
                    sink = yield answer.take(batch)
                return
        except UpstreamError as error:
            if not answer.may_continue(error):
                raise
            failure = error
        release_traceback(failure)
        if answer.complete():
            return
        if exhausted(request, answer.shown):
            yield [Finished(reason="length")]
            return
        source, first = await answer.continue_after(failure)
        announce(failure.code)


class _Answer:
    """One answer over its attempts. shown: what the client has of it."""

    def __init__(
        self, plan: Plan, request: GenerateRequest, record: RequestRecord, tenant: str
    ) -> None:
        self._plan = plan
        self._request = request
        self._record = record
        self._tenant = tenant
        self._deadline = plan.ends(record.started, stream=record.stream)
        self._seam: Seam | None = None
        if plan.hedging is None:  # two attempts at once would share it
            record.drawn = DrawnTokens(ids=[])
        self._first_at: float | None = None
        self._last_at = 0.0
        self.shown = ShownAnswer()

    @property
    def ended(self) -> bool:
        """Whether the answer has ended, whatever its backend still sends."""
        return self._seam is not None and self._seam.ended

    def take(self, batch: Sequence[Event]) -> list[Event]:
        """The events for the client, which are shown from now on."""
        events = list(batch) if self._seam is None else self._seam.join(batch)
        self.shown.add(events)
        self._last_at = now()
        return events

    def through(self, sink: EventSink | None) -> EventSink | None:
        """The sink for the backend's events: those for the client go to `sink`."""
        return None if sink is None else partial(self._pass, sink)

    def _pass(self, sink: EventSink, batch: Sequence[Event]) -> bool:
        return sink(self.take(batch)) and not self.ended

    def may_continue(self, error: GatewayError) -> bool:
        """Whether the answer can be continued after the failure, if a backend can do it."""
        return (
            self._record.first_content_at is not None
            and may_fail_over(error, self._plan.retry)
            and (continuable(self._request, self.shown) or resumable(self._request))
        )

    def complete(self) -> bool:
        """Whether the client has the end of the answer, so that only its end mark is missing."""
        if self.shown.finished:
            _last_attempt(self._record).outcome = "ok"
        return self.shown.finished

    async def continue_after(self, failure: UpstreamError) -> tuple[EventSource, list[Event]]:
        """The events of the next backend that continues the answer, and the first for the client.

        Raises the failure if none does, and DeadlineExceeded.
        """
        record, broken, rule = self._record, _last_attempt(self._record), self._plan.retry
        if self._first_at is None:
            self._first_at = record.first_content_at
        queue, drawn = self._queue(broken, failure), self._drawn_by(broken)
        last: GatewayError = failure
        for repeats in range(rule.attempts):
            for candidate in tuple(queue):
                again = repeats > 0 or _is_of(candidate, broken)
                continued = self._continuation(candidate, drawn)
                if continued is None:
                    queue.remove(candidate)
                    continue
                if not self._may_ask(candidate, again=again):
                    continue
                try:
                    return await self._begin(continued, broken)
                except DeadlineExceeded:
                    raise
                except GatewayError as error:
                    release_traceback(error)
                    last = error
                    if not _may_return(error, rule):
                        queue.remove(candidate)
                finally:
                    record.first_content_at = self._first_at
            wait = pause(last, rule, repeats, random.random())
            late = wait > rule.max_backoff_s or now() + wait >= self._deadline
            if not queue or self._attempts_left() <= 0 or late:
                break
            await asyncio.sleep(wait)
        record.backend = broken.backend
        raise failure

    def _queue(self, broken: AttemptRecord, failure: UpstreamError) -> list[Candidate]:
        """The candidates in the plan's order; the one that broke off last, if it may be asked."""
        able = (*self._plan.candidates, *self._plan.unavailable)
        again = _may_return(failure, self._plan.retry)
        others = [one for one in able if not _is_of(one, broken)]
        return others + [one for one in able if _is_of(one, broken) and again]

    def _drawn_by(self, broken: AttemptRecord) -> DrawnTokens | None:
        """The tokens that the backend has drawn, if it can say; not those of one asked before."""
        drawn = self._record.drawn
        able = (*self._plan.candidates, *self._plan.unavailable)
        known = any(
            _is_of(one, broken) and drawn is not None and resumption(one, drawn) is not None
            for one in able
        )
        return drawn if known else None

    def _continuation(self, candidate: Candidate, drawn: DrawnTokens | None) -> Continuation | None:
        if drawn is not None and resumable(self._request):
            resumed = resumption(candidate, drawn)
            if resumed is not None:
                return resumed
        if continuable(self._request, self.shown):
            return continuation(candidate, self._request, self.shown)
        return None

    def _attempts_left(self) -> int:
        record = self._record
        return self._plan.retry.attempts - (record.attempts_sent - record.uncounted)

    def _may_ask(self, candidate: Candidate, *, again: bool) -> bool:
        at = now()
        return (
            self._attempts_left() > 0
            and at < self._deadline
            and candidate.breaker.is_available(at)
            and (not again or candidate.backend.budget.take(at))
        )

    async def _begin(
        self, continued: Continuation, broken: AttemptRecord
    ) -> tuple[EventSource, list[Event]]:
        """Ask one backend, once, and wait for its first events. Raises GatewayError."""
        plan, record = self._plan, self._record
        alone = replace(
            plan,
            candidates=(continued.candidate,),
            unavailable=(),
            names=(continued.candidate.name,),
            retry=replace(plan.retry, attempts=1),
            error_fallback=no_error_fallback,
            hedging=None,
        )
        if record.drawn is not None:
            record.drawn = DrawnTokens(ids=[], replayed=continued.resumed)
        source = pipeline.stream(alone, self._request, record, tenant=self._tenant)
        try:
            batch = await anext(source)
            broken.continued = True
            self._seam = Seam(self._request, self.shown, continued, record, self._last_at)
            return source, self.take(batch)
        except BaseException:
            broken.continued = False
            await source.aclose()
            raise


def _is_of(candidate: Candidate, attempt: AttemptRecord) -> bool:
    """Whether the candidate is the backend, or the replica, that was asked."""
    replica = candidate.backend.replica
    address = "" if replica is None else replica.address
    return candidate.name == attempt.backend and address == attempt.replica


def _may_return(error: GatewayError, rule: RetryRule) -> bool:
    """Whether the backend may be asked again; an engine that ended is started again."""
    starts = isinstance(error, UpstreamLost | UpstreamStarting)
    return may_retry(error, rule) or (starts and may_fail_over(error, rule))


def _last_attempt(record: RequestRecord) -> AttemptRecord:
    """The attempt whose answer was the request's so far."""
    return next(one for one in reversed(record.attempts) if not one.role)
