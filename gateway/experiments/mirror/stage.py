"""Keep what an answer is, for requests whose copy goes to a mirror."""

from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing
from typing import cast

from strowger_gateway.gateway.routing.planning.plan import Plan
from strowger_gateway.gateway.stages.answer_filter import AnswerFilter, Collect
from strowger_gateway.gateway.stages.request_context import RequestContext
from strowger_gateway.gateway.stages.stage import BaseStage, Place
from strowger_gateway.schemas.answers import Answer, Embeddings, Fold
from strowger_gateway.schemas.events import Event, EventSource
from strowger_gateway.schemas.tasks.task import TaskAnswer

Offer = Callable[[RequestContext, Answer | Embeddings | TaskAnswer], None]


class MirrorStage(BaseStage):
    """Stands before the request is answered, so its filter is the nearest to the client."""

    place = Place.ANSWER
    leaves = True

    def __init__(self, offer: Offer) -> None:
        self._offer = offer

    def enter(self, request: RequestContext) -> Awaitable[None] | None:
        """Have the answer kept if the plan has a mirror."""
        if request.plan is not None and request.plan.mirror is not None:
            kept = request.slots[self.slot] = MirroredAnswer()
            request.filters.append(kept)
        return None

    def leave(self, request: RequestContext) -> None:
        """Send the copy, if the client has got its answer."""
        kept = request.slots[self.slot]
        if type(kept) is not MirroredAnswer or kept.answered is None:
            return
        if request.response.started and not request.record.error:
            self._offer(request, kept.answered)


class MirroredAnswer(AnswerFilter):
    """answered: the answer as the client gets it, once it is complete."""

    __slots__ = ("answered",)

    plainly = False

    def __init__(self) -> None:
        self.answered: Answer | Embeddings | TaskAnswer | None = None

    async def answer(self, plan: Plan, collect: Collect[Answer]) -> Answer:
        """See AnswerFilter."""
        self.answered = answer = await collect()
        return answer

    async def vectors(self, plan: Plan, collect: Collect[Embeddings]) -> Embeddings:
        """See AnswerFilter."""
        self.answered = vectors = await collect()
        return vectors

    async def task(self, plan: Plan, collect: Collect[TaskAnswer]) -> TaskAnswer:
        """See AnswerFilter."""
        self.answered = answer = await collect()
        return answer

    def events(self, source: EventSource, plan: Plan) -> EventSource:
        """See AnswerFilter. It knows no sinks, so every event passes through it."""
        return cast("EventSource", self._folded(source))

    async def _folded(self, source: EventSource) -> AsyncGenerator[list[Event], None]:
        fold = Fold()
        async with aclosing(source):
            async for batch in source:
                fold.add(batch)
                yield batch
        self.answered = fold.answer()
