"""Answer a request from the cache, or keep the answer that its backend gives.

What is kept has passed all other filters, but as the backend gave it: they examine a hit again.
So the cache is two filters: one next to the backend, which finds or records the answer, and one
next to the client, which keeps it once the whole answer has come through.
"""

from collections.abc import Awaitable, Callable

from strowger_gateway.gateway.content.cache.cache import AnswerCache
from strowger_gateway.gateway.content.cache.cached_request import CachedRequest
from strowger_gateway.gateway.content.cache.key import CacheRules
from strowger_gateway.gateway.routing.planning.plan import Plan
from strowger_gateway.gateway.stages.answer_filter import AnswerFilter, Collect, T
from strowger_gateway.gateway.stages.request_context import RequestContext
from strowger_gateway.gateway.stages.stage import BaseStage, Place
from strowger_gateway.schemas.answers import Answer, Embeddings
from strowger_gateway.schemas.events import EventSource
from strowger_gateway.schemas.plain_answer import PlainAnswer
from strowger_gateway.schemas.tasks.task import TaskAnswer


class CacheStage(BaseStage):
    """Of one route and generation; after guardrails, because the key is of what backends get."""

    place = Place.EXAMINE

    def __init__(self, cache: AnswerCache, rules: CacheRules) -> None:
        self._cache = cache
        self._rules = rules

    def enter(self, request: RequestContext) -> Awaitable[None] | None:
        """Add the two filters, unless neither the client nor the operator asks for the cache."""
        record, sent, room = request.record, request.request, request.room
        generation = request.generation
        assert sent is not None
        assert request.route is not None
        resolved = request.route.valued(sent)
        use = self._rules.use(record.route, resolved, request.exchange.fields)
        if use is None:
            return None

        async def offload(call: Callable[[], str | None]) -> str | None:
            assert room is not None
            return await room.run(call, record.holder, room.size)

        cached = CachedRequest(
            self._cache,
            self._rules,
            use,
            resolved,
            record,
            request.response.own_headers if generation.config.server.expose_headers else None,
            offload if record.large else None,
            lambda: bool(record.findings),
        )
        request.filters.insert(0, FoundAnswer(cached))
        request.filters.append(KeptAnswer(cached))
        return None


class FoundAnswer(AnswerFilter):
    """Next to the backend: the answer of the cache, or the backend's, which is recorded."""

    __slots__ = ("_cached",)

    def __init__(self, cached: CachedRequest) -> None:
        self._cached = cached

    async def chat(
        self, plan: Plan, collect: Collect[Answer | PlainAnswer]
    ) -> Answer | PlainAnswer:
        """See AnswerFilter."""
        return await self._cached.chat(plan, collect)

    async def answer(self, plan: Plan, collect: Collect[Answer]) -> Answer:
        """See AnswerFilter."""
        return await self._cached.answer(plan, collect)

    async def vectors(self, plan: Plan, collect: Collect[Embeddings]) -> Embeddings:
        """See AnswerFilter."""
        return await self._cached.vectors(plan, collect)

    async def task(self, plan: Plan, collect: Collect[TaskAnswer]) -> TaskAnswer:
        """See AnswerFilter."""
        return await self._cached.task(plan, collect)

    def events(self, source: EventSource, plan: Plan) -> EventSource:
        """See AnswerFilter."""
        return self._cached.events(source, plan)


class KeptAnswer(AnswerFilter):
    """Next to the client: what came through is kept."""

    __slots__ = ("_cached",)

    def __init__(self, cached: CachedRequest) -> None:
        self._cached = cached

    async def chat(
        self, plan: Plan, collect: Collect[Answer | PlainAnswer]
    ) -> Answer | PlainAnswer:
        """See AnswerFilter."""
        return await self._keep(collect)

    async def answer(self, plan: Plan, collect: Collect[Answer]) -> Answer:
        """See AnswerFilter."""
        return await self._keep(collect)

    async def vectors(self, plan: Plan, collect: Collect[Embeddings]) -> Embeddings:
        """See AnswerFilter."""
        return await self._keep(collect)

    async def task(self, plan: Plan, collect: Collect[TaskAnswer]) -> TaskAnswer:
        """See AnswerFilter."""
        return await self._keep(collect)

    def events(self, source: EventSource, plan: Plan) -> EventSource:
        """See AnswerFilter."""
        return self._cached.kept(source)

    async def _keep(self, collect: Collect[T]) -> T:
        try:
            answer = await collect()
            self._cached.keep()
        finally:
            self._cached.close()
        return answer
