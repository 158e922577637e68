"""Let no answer show which variant it is from: its model, its fingerprint, and names in errors."""

import re
from collections.abc import AsyncGenerator, Awaitable, Iterable, Sequence
from contextlib import aclosing
from typing import cast

from msgspec.structs import replace

from strowger_gateway.gateway.config.schema.experiment import Experiment
from strowger_gateway.gateway.routing.planning.plan import Plan
from strowger_gateway.gateway.stages.answer_filter import AnswerFilter, Collect
from strowger_gateway.gateway.stages.request_context import RequestContext
from strowger_gateway.gateway.stages.stage import BaseStage, Place
from strowger_gateway.schemas.answers import Answer, Embeddings
from strowger_gateway.schemas.errors import GatewayError
from strowger_gateway.schemas.events import Event, EventSource, Started
from strowger_gateway.schemas.plain_answer import PlainAnswer
from strowger_gateway.schemas.tasks.task import TaskAnswer


class HideVariants(BaseStage):
    """Stands last before the request is answered, so its filter is the nearest to the client."""

    place = Place.ANSWER

    def __init__(self, experiments: Iterable[Experiment]) -> None:
        self._names = {
            one.name: tuple(
                name
                for variant in one.variants
                for name in (variant.backend, variant.backend.partition("/")[2])
                if name
            )
            for one in experiments
        }

    def enter(self, request: RequestContext) -> Awaitable[None] | None:
        """Have the answer masked if the request takes part."""
        part = request.record.participation
        if not part.shown and part.experiment in self._names:
            model = request.record.model
            request.filters.append(MaskedAnswer(model, self._names[part.experiment]))
        return None


class MaskedAnswer(AnswerFilter):
    """Names the model that the client has named, and leaves out the vendor's own fields."""

    __slots__ = ("_model", "_names")

    def __init__(self, model: str, names: Sequence[str]) -> None:
        """names: of the variants' backends, to replace in errors."""
        self._model = model
        self._names = names

    async def chat(
        self, plan: Plan, collect: Collect[Answer | PlainAnswer]
    ) -> Answer | PlainAnswer:
        """See AnswerFilter."""
        answer = await collect()
        if type(answer) is PlainAnswer:
            return replace(answer, model=self._model, system_fingerprint=None, service_tier=None)
        assert type(answer) is Answer
        return self._masked(answer)

    async def answer(self, plan: Plan, collect: Collect[Answer]) -> Answer:
        """See AnswerFilter."""
        return self._masked(await collect())

    async def vectors(self, plan: Plan, collect: Collect[Embeddings]) -> Embeddings:
        """See AnswerFilter."""
        return replace(await collect(), model=self._model, id="")

    async def task(self, plan: Plan, collect: Collect[TaskAnswer]) -> TaskAnswer:
        """See AnswerFilter."""
        return replace(await collect(), model=self._model, id="")

    def events(self, source: EventSource, plan: Plan) -> EventSource:
        """See AnswerFilter. It knows no sinks, so every event passes through it."""
        return cast("EventSource", self._streamed(source))

    async def error(self, error: GatewayError) -> None:
        """Replace the names of backends by that of the model; the log keeps them."""
        names = "|".join(map(re.escape, sorted(self._names, key=len, reverse=True)))
        whole = rf"(?<![\w/.-])(?:{names})(?![\w/-])"
        error.message = re.sub(whole, lambda _: self._model, error.message)

    async def _streamed(self, source: EventSource) -> AsyncGenerator[list[Event], None]:
        async with aclosing(source):
            async for batch in source:
                yield [self._started(event) if type(event) is Started else event for event in batch]

    def _masked(self, answer: Answer) -> Answer:
        return replace(answer, started=self._started(answer.started))

    def _started(self, started: Started) -> Started:
        return replace(started, id="", model=self._model, extra={})
