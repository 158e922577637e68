"""The filters of an answer that compact its conversation.

They do it and not the stage, so that a stream's client is kept waiting in the usual way. The one
next to the backend asks for summaries and then for the answer; the one next to the client, behind
the guardrails, makes the item that it keeps.
"""

from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from typing import cast

from strowger_gateway.gateway.content.compaction.compacting import Compacting, leading_item
from strowger_gateway.gateway.content.compaction.summary_text import no_summary, summary_in
from strowger_gateway.gateway.routing.execution import pipeline
from strowger_gateway.gateway.routing.planning.plan import Plan
from strowger_gateway.gateway.routing.request_record import RequestRecord
from strowger_gateway.gateway.stages.answer_filter import AnswerFilter, Collect
from strowger_gateway.gateway.surfaces.responses.compaction import LEADING
from strowger_gateway.gateway.surfaces.responses.resource import NATIVE
from strowger_gateway.gateway.surfaces.stored_items import Compacted
from strowger_gateway.schemas.answers import Answer, Choice, Fold
from strowger_gateway.schemas.errors import GatewayError
from strowger_gateway.schemas.events import (
    Event,
    EventSink,
    EventSource,
    Finished,
    OpaqueDelta,
    Started,
    Usage,
)


class Summarised(AnswerFilter):
    """Next to the backend: it is asked for the last summary, or for an answer after summaries."""

    __slots__ = ("_record", "_work")

    plainly = False

    def __init__(self, work: Compacting, record: RequestRecord) -> None:
        self._work = work
        self._record = record

    async def answer(self, plan: Plan, collect: Collect[Answer]) -> Answer:
        """See AnswerFilter. The plan so far is not asked."""
        work, record = self._work, self._record
        found = await work.prepare()
        while True:
            try:
                answer = await pipeline.collect(*found, record, tenant=record.caller)
            except GatewayError as exc:
                other = await work.after(exc)
                if other is None:
                    raise
            else:
                if not work.wants.now or _is_native(answer.started):
                    return answer
                other = await work.checked(answer)
                if other is None:
                    return answer
            found = other

    def events(self, source: EventSource, plan: Plan) -> EventSource:
        """See AnswerFilter. The source has not begun, and never does."""
        return self._events(source)

    async def _events(self, unused: EventSource) -> EventSource:
        await unused.aclose()
        work, record = self._work, self._record
        found = await work.prepare()
        while True:
            begun, sink = False, cast("EventSink | None", None)
            held: list[Event] | None = [] if work.wants.now else None
            answer = pipeline.stream(*found, record, tenant=record.caller)
            try:
                async with aclosing(answer) as source:
                    while (batch := await _next(source, sink)) is not None:
                        if held is not None:
                            held += batch
                            if not any(map(_is_native, batch)):
                                continue
                            batch, held = held, None
                        begun = True
                        sink = yield batch
            except GatewayError as exc:
                other = None if begun else await work.after(exc)
                if other is None:
                    raise
            else:
                if held is None:
                    return
                fold = Fold()
                fold.add(held)
                other = await work.checked(fold.answer())
                if other is None:
                    yield held
                    return
            found = other


class SummaryAnswer(AnswerFilter):
    """Next to the client: a summary becomes a compaction item. A backend's own item passes."""

    __slots__ = ("_record", "_work")

    plainly = False

    def __init__(self, work: Compacting, record: RequestRecord) -> None:
        self._work = work
        self._record = record

    async def answer(self, plan: Plan, collect: Collect[Answer]) -> Answer:
        """See AnswerFilter. Raises UpstreamBroken for an answer without text."""
        return await self._sealed(await collect())

    def events(self, source: EventSource, plan: Plan) -> EventSource:
        """See AnswerFilter. Nothing of a summary leaves before its end."""
        return cast("EventSource", self._events(source))

    async def _events(self, source: EventSource) -> AsyncGenerator[list[Event], None]:
        fold, native = Fold(), False
        async with aclosing(source):
            async for batch in source:
                native = native or any(_is_native(one) for one in batch)
                if native:
                    yield batch
                else:
                    fold.add(batch)
        if not native:
            yield _as_events(await self._sealed(fold.answer()))

    async def _sealed(self, answer: Answer) -> Answer:
        if _is_native(answer.started):
            return answer
        summary = summary_in(answer)
        if not summary:
            raise no_summary(self._record.backend)
        item = await self._work.sealed(Compacted(summary=summary))
        choice = Choice(
            index=0, opaque={LEADING: leading_item(item)}, finish=Finished(reason="stop")
        )
        return Answer(started=answer.started, choices=[choice], usage=answer.usage)


class CompactedAnswer(AnswerFilter):
    """Next to the client: the item of a conversation that was compacted comes before the answer."""

    __slots__ = ("_work",)

    plainly = False

    def __init__(self, work: Compacting) -> None:
        self._work = work

    async def answer(self, plan: Plan, collect: Collect[Answer]) -> Answer:
        """See AnswerFilter."""
        answer = await collect()
        if self._work.item and answer.choices:
            choice = answer.choices[0]
            choice.opaque = {LEADING: leading_item(self._work.item), **choice.opaque}
        return answer

    def events(self, source: EventSource, plan: Plan) -> EventSource:
        """See AnswerFilter. The item leaves with the first content, and not before it."""
        return self._events(source)

    async def _events(self, source: EventSource) -> EventSource:
        async with aclosing(source):
            batch = await _next(source, None)
            if batch is not None and self._work.item:
                lead = OpaqueDelta(fields={LEADING: leading_item(self._work.item)})
                at = 1 if batch and isinstance(batch[0], Started) else 0
                batch = [*batch[:at], lead, *batch[at:]]
            while batch is not None:
                sink = yield batch
                batch = await _next(source, sink)


async def _next(source: EventSource, sink: EventSink | None) -> list[Event] | None:
    try:
        return await source.asend(sink)
    except StopAsyncIteration:
        return None


def _is_native(event: object) -> bool:
    """Return whether a server of the client's own API has begun the answer."""
    return isinstance(event, Started) and NATIVE in event.extra


def _as_events(answer: Answer) -> list[Event]:
    choice, usage = answer.choices[0], answer.usage
    counts: Sequence[Usage] = () if usage is None else (usage,)
    finish = choice.finish or Finished(reason="stop")
    return [answer.started, OpaqueDelta(fields=choice.opaque), finish, *counts]
