"""Execute the plan of one request: attempt, hold events until content, fail over, give up.

`stream` commits to a backend with its first content; all others commit when the answer is
complete, so a failure at any point before its end can still fail over.
"""

from collections.abc import AsyncGenerator, Callable, Coroutine, Sequence
from contextlib import aclosing
from typing import Protocol, TypeVar, cast

from msgspec import UNSET

from strowger_gateway.gateway.platform.clock import now
from strowger_gateway.gateway.routing.execution import hedging as hedge
from strowger_gateway.gateway.routing.execution.attempt import (
    Attempt,
    events_of,
    task_answer_of,
    vectors_of,
)
from strowger_gateway.gateway.routing.execution.attempt_sequence import (
    AttemptSequence,
    PrimaryAttempt,
    first_attempt,
)
from strowger_gateway.gateway.routing.execution.empty_answer import check_answer, check_held
from strowger_gateway.gateway.routing.execution.token_timing import Intervals
from strowger_gateway.gateway.routing.planning.plan import Plan
from strowger_gateway.gateway.routing.request_record import RequestRecord
from strowger_gateway.schemas.answers import Answer, Embeddings, Fold
from strowger_gateway.schemas.events import (
    CONTENT,
    LONGEST_TOKEN,
    Event,
    EventSink,
    EventSource,
    Finished,
    Started,
    TextDelta,
    Usage,
    text_sink,
    tokens_of,
)
from strowger_gateway.schemas.requests import (
    ChatRequest,
    EmbeddingsRequest,
    GenerateRequest,
    TokenRequest,
    WholeRequest,
)
from strowger_gateway.schemas.tasks.task import TaskAnswer, TaskRequest
from strowger_gateway.schemas.usage import tier_in

_CONTENT = frozenset(CONTENT)


class _HasUsage(Protocol):
    @property
    def usage(self) -> Usage: ...


_Counted = TypeVar("_Counted", bound=_HasUsage)


def count_events(record: RequestRecord, batch: Sequence[Event]) -> bool:
    """Count the batch in the request's record; true if it has content for the client.

    An answer whose end comes first is empty, and the end of its stream decides what it is.
    """
    content = False
    deltas = record.deltas
    for event in batch:
        if type(event) is TextDelta:  # most events: `tokens_of` inlined
            size = len(event.text)
            deltas += 1 if size <= LONGEST_TOKEN else size // 4
            content = content or size > 0 or bool(event.logprobs)
        elif type(event) in _CONTENT:
            content = content or type(event) is not Finished
            deltas += tokens_of(event)
        elif type(event) is Usage:
            record.usage, record.usage_at = event, deltas
        elif type(event) is Started and (extra := event.extra):
            tier = tier_in(extra)
            if tier is not None:
                record.service_tier = tier
    record.deltas = deltas
    if content and record.first_content_at is None:
        record.first_content_at = now()
    return content


async def stream(
    plan: Plan, request: GenerateRequest, record: RequestRecord, *, tenant: str = ""
) -> EventSource:
    """The answer in batches; the first holds everything up to the first content.

    A sink that is sent to it takes the batches after that from the backend directly, if the backend
    is an EventSource. Raises GatewayError before the first batch, when the client has received
    nothing, or after it, which cuts the stream. Closing the generator early cancels the attempt.
    """
    attempt = first_attempt(plan, request, record, tenant)
    if attempt is None:
        attempt = await AttemptSequence(plan, request, record, tenant).first()
    while True:
        held: list[Event] = []
        counted: EventSink | None = None
        tokens = isinstance(attempt.request, TokenRequest)
        intervals = Intervals(record.started) if tokens else None
        try:
            async with aclosing(events_of_plan(attempt)) as source:
                while (batch := await _next(source, counted)) is not None:
                    content = count_events(record, batch)
                    if intervals is not None:
                        batch = intervals.timed(batch, now())
                    if not attempt.committed:
                        held.extend(batch)
                        if not content:
                            continue
                        attempt.commit()
                        batch = held
                    sink = yield batch
                    if intervals is None and sink is not None:
                        counted = _CountedSink(record, sink)
            if not attempt.committed:
                check_held(attempt, held)
                yield held
        except BaseException as error:
            if not attempt.should_fail_over(error):
                raise
        else:
            (attempt.replacement or attempt).succeed(now())
            return
        attempt = await attempt.rest.next(attempt)


async def _next(
    source: AsyncGenerator[list[Event], None], sink: EventSink | None
) -> list[Event] | None:
    """Return the next batch, `None` at the end. A source that knows no sinks ignores this one."""
    try:
        return await cast("EventSource", source).asend(sink)
    except StopAsyncIteration:
        return None


class _CountedSink:
    """An EventSink that counts what it passes on; the first content has been seen."""

    __slots__ = ("_record", "_sink", "_take_text")

    def __init__(self, record: RequestRecord, sink: EventSink) -> None:
        self._record, self._sink, self._take_text = record, sink, text_sink(sink)

    def __call__(self, batch: Sequence[Event]) -> bool:
        if len(batch) == 1 and type(batch[0]) is TextDelta:
            size = len(batch[0].text)  # `count_events` inlined for most batches
            self._record.deltas += 1 if size <= LONGEST_TOKEN else size // 4
        else:
            count_events(self._record, batch)
        return self._sink(batch)

    def text(self, text: str, index: int) -> bool:
        """See EventSink."""
        size = len(text)
        self._record.deltas += 1 if size <= LONGEST_TOKEN else size // 4
        return self._take_text(text, index)


async def collect(
    plan: Plan,
    request: GenerateRequest,
    record: RequestRecord,
    *,
    tenant: str = "",
    begun: PrimaryAttempt | None = None,
) -> Answer:
    """The complete answer of the first backend that completes one.

    begun: the attempt to go on with, if it has started.
    """
    attempt = begun or first_attempt(plan, request, record, tenant)
    if attempt is None:
        attempt = await AttemptSequence(plan, request, record, tenant).first()
    while True:
        fold = Fold()
        source = events_of_plan(attempt)
        try:
            try:
                async for batch in source:
                    fold.add(batch)
                    if fold.deltas and record.first_content_at is None:
                        record.first_content_at = now()
            except BaseException:
                await source.aclose()
                raise
            finally:
                record.usage, record.usage_at = fold.usage, fold.usage_at
                record.deltas = fold.deltas if fold.usage is not None else fold.tokens
            answer = fold.answer()
            if not (answer.choices and answer.choices[0].text):
                check_answer(attempt, answer)
            tier = tier_in(answer.started.extra)
            if tier is not None:
                record.service_tier = tier
        except BaseException as error:
            if not attempt.should_fail_over(error):
                raise
        else:
            (attempt.replacement or attempt).succeed(now())
            return answer
        attempt = await attempt.rest.next(attempt)


async def embed(
    plan: Plan, request: EmbeddingsRequest, record: RequestRecord, *, tenant: str = ""
) -> Embeddings:
    """The vectors of the first backend that returns them."""
    return await _whole(plan, request, record, tenant, vectors_of)


async def perform(
    plan: Plan, request: TaskRequest, record: RequestRecord, *, tenant: str = ""
) -> TaskAnswer:
    """The answer of the first backend that performs the task."""
    return await _whole(plan, request, record, tenant, task_answer_of)


async def _whole(
    plan: Plan,
    request: WholeRequest,
    record: RequestRecord,
    tenant: str,
    ask: Callable[[Attempt], Coroutine[None, None, _Counted]],
) -> _Counted:
    attempt = first_attempt(plan, request, record, tenant)
    if attempt is None:
        attempt = await AttemptSequence(plan, request, record, tenant).first()
    while True:
        try:
            if plan.hedging is None:
                answer = await ask(attempt)
            else:
                answer = await hedge.hedged_whole(attempt, plan.hedging, ask)
        except BaseException as error:
            if not attempt.should_fail_over(error):
                raise
        else:
            (attempt.replacement or attempt).succeed(now())
            record.usage = answer.usage
            return answer
        attempt = await attempt.rest.next(attempt)


def events_of_plan(attempt: PrimaryAttempt) -> AsyncGenerator[list[Event], None]:
    """The events of the attempt, or of the faster one if the plan hedges."""
    hedging, candidate = attempt.plan.hedging, attempt.candidate
    if hedging is not None:
        return hedge.hedged_events(attempt, hedging)
    if candidate.undo is not None:
        return events_of(attempt)
    # `Attempt.request` and `events_of` inlined: two calls less per request.
    request = candidate.request or attempt.client_request
    upstream, chats = candidate.backend.upstream, candidate.backend.chats
    if chats is not None and type(request) is ChatRequest:
        for field in chats.fields:
            if getattr(request.sampling, field) is not UNSET:
                break
        else:
            upstream = chats.upstream
    return upstream.generate(
        request,  # pyright: ignore[reportArgumentType]  embeddings have a verb of their own
        attempt.call,
    )
