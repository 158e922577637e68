"""What courtesy does with a request: refuse it if it is rude, and soften its answer."""

from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable
from contextlib import aclosing
from typing import cast

from msgspec.structs import replace

from strowger_gateway.gateway.routing.planning.plan import Plan
from strowger_gateway.gateway.stages.answer_filter import AnswerFilter
from strowger_gateway.gateway.stages.request_context import RequestContext
from strowger_gateway.gateway.stages.stage import BaseStage, Place
from strowger_gateway.schemas.errors import ContentBlocked
from strowger_gateway.schemas.events import Event, EventSource, TextDelta
from strowger_gateway.schemas.messages import text_of
from strowger_gateway.schemas.requests import ChatRequest
from tests.gateway.parts.courtesy.section import MOOD, Courtesy


class Refuses(BaseStage):
    """Records the mood of each request."""

    place = Place.EXAMINE

    def __init__(self, settings: Courtesy, admits: Callable[[int], bool]) -> None:
        self._settings = settings
        self._admits = admits

    def enter(self, request: RequestContext) -> Awaitable[None] | None:
        """Raises ContentBlocked for a rude request after too many."""
        sent = request.request
        if type(sent) is not ChatRequest:
            return
        said = " ".join(text_of(one) for one in sent.messages)
        rude = is_rude(said, self._settings.rude)
        MOOD.set(request.record, "rude" if rude else "calm")
        if rude and not self._admits(self._settings.most):
            raise ContentBlocked("be polite, please")


class Softens(BaseStage):
    """Lets the answer pass `Softened`."""

    place = Place.EXAMINE

    def __init__(self, settings: Courtesy) -> None:
        self._words = settings.rude

    def enter(self, request: RequestContext) -> Awaitable[None] | None:
        request.filters.append(Softened(self._words))


class Softened(AnswerFilter):
    """Replaces rude words in each piece of a streamed text."""

    def __init__(self, words: Iterable[str]) -> None:
        self._words = tuple(words)

    def events(self, source: EventSource, plan: Plan) -> EventSource:
        return cast("EventSource", self._softened(source))

    async def _softened(self, source: EventSource) -> AsyncGenerator[list[Event], None]:
        async with aclosing(source):
            async for batch in source:
                yield [self._soften(event) for event in batch]

    def _soften(self, event: Event) -> Event:
        if type(event) is not TextDelta:
            return event
        text = event.text
        for word in self._words:
            text = text.replace(word, "dear")
        return replace(event, text=text)


def is_rude(text: str, words: Iterable[str]) -> bool:
    return any(word in text for word in words)
