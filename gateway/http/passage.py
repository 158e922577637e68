"""What an answer passes between its backends and its client: the cache, then guardrails."""

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from strowger_gateway.gateway.assembly.gateway import Gateway
from strowger_gateway.gateway.assembly.runtime import Runtime
from strowger_gateway.gateway.governance.access.key_shares import Slot
from strowger_gateway.gateway.http.guarded import guarded
from strowger_gateway.gateway.routing.execution import pipeline
from strowger_gateway.gateway.routing.execution.plain_chat import collect_plain
from strowger_gateway.gateway.routing.planning.capability_match import with_operator_values
from strowger_gateway.gateway.routing.planning.plan import Plan
from strowger_gateway.gateway.routing.request_record import RequestRecord
from strowger_gateway.gateway.server.asgi.response import ResponseWriter
from strowger_gateway.gateway.surfaces.hot_route import HotRoute
from strowger_gateway.schemas.answers import Answer, Embeddings
from strowger_gateway.schemas.errors import GatewayError
from strowger_gateway.schemas.events import EventSource
from strowger_gateway.schemas.holdings import Holder
from strowger_gateway.schemas.plain_answer import PlainAnswer
from strowger_gateway.schemas.requests import (
    ChatRequest,
    EmbeddingsRequest,
    GenerateRequest,
    Request,
)

if TYPE_CHECKING:
    from strowger_gateway.gateway.content.cache.cached_request import CachedRequest
    from strowger_gateway.gateway.content.hooks.guarded_request import GuardedRequest


async def whole_answer(
    plan: Plan, request: GenerateRequest, record: RequestRecord, passage: "Passage | None"
) -> Answer:
    """Return the complete answer as its client may receive it. Raises ContentBlocked."""
    if passage is None:
        return await pipeline.collect(plan, request, record, tenant=record.caller)
    return await passage.answer(plan, request, record)


class Passage:
    """Of one request: at least one of the two."""

    __slots__ = ("_cached", "_guards")

    def __init__(self, guards: "GuardedRequest | None", cached: "CachedRequest | None") -> None:
        self._guards = guards
        self._cached = cached

    @property
    def plainly(self) -> bool:
        """Whether plain answers pass as they are: guardrails examine others."""
        return self._guards is None

    async def chat(
        self, plan: Plan, request: ChatRequest, record: RequestRecord
    ) -> Answer | PlainAnswer:
        """Return the whole answer to a chat, if `plainly`: the cache's, or a backend's."""
        cached = self._cached
        assert cached is not None
        try:
            collect = partial(collect_plain, plan, request, record, tenant=record.caller)
            answer = await cached.chat(plan, collect)
            cached.keep()
        finally:
            cached.close()
        return answer

    def events(self, source: EventSource, plan: Plan) -> EventSource:
        """Return the events as the client may receive them. Closing it closes the source.

        source: has not begun, because an answer from the cache needs none.
        """
        guards, cached = self._guards, self._cached
        if cached is not None:
            source = cached.events(source, plan)
        if guards is not None:
            source = guards.events(source)
        return source if cached is None else cached.kept(source)

    async def answer(self, plan: Plan, request: GenerateRequest, record: RequestRecord) -> Answer:
        """Return the complete answer as the client may receive it. Raises ContentBlocked."""
        guards, cached = self._guards, self._cached
        collect = partial(pipeline.collect, plan, request, record, tenant=record.caller)
        if cached is None:
            answer = await collect()
            return answer if guards is None else await guards.answer(answer)
        try:
            answer = await cached.answer(plan, collect)
            if guards is not None:
                answer = await guards.answer(answer)
            cached.keep()
        finally:
            cached.close()
        return answer

    async def examine_error(self, error: GatewayError) -> None:
        """Hold what an error quotes of its backend's answer to the guardrails."""
        if self._guards is not None:
            await self._guards.error(error)

    async def vectors(
        self, plan: Plan, request: EmbeddingsRequest, record: RequestRecord
    ) -> Embeddings:
        """Return the vectors of the first backend that returns them, or the cache's."""
        guards, cached = self._guards, self._cached
        embed = partial(pipeline.embed, plan, request, record, tenant=record.caller)
        if cached is None:
            vectors = await embed()
            return vectors if guards is None else guards.vectors(vectors)
        try:
            vectors = await cached.vectors(plan, embed)
            if guards is not None:
                vectors = guards.vectors(vectors)
            cached.keep()
        finally:
            cached.close()
        return vectors


async def examined(
    gateway: Gateway,
    runtime: Runtime,
    record: RequestRecord,
    response: ResponseWriter,
    at_route: HotRoute,
    held: Slot,
) -> tuple[Request, Passage | None]:
    """Return `response.request` as backends may receive it, and what its answer passes.

    at_route: the path; one that only counts tokens has no answer. held: the request's memory.
    Raises ContentBlocked, InvalidRequest, Throttled, Unavailable, ClientGone.
    """
    request, guards, cached = response.request, None, None
    assert request is not None
    if runtime.guards is not None:
        request, guards = await guarded(gateway, runtime, record, response, held)
    if runtime.cache is not None and not at_route.counts:
        cached = _cached(gateway, runtime, record, request, response, guards, held)
    if guards is None and cached is None:
        return request, None
    return request, Passage(guards, cached)


def _cached(
    gateway: Gateway,
    runtime: Runtime,
    record: RequestRecord,
    request: Request,
    response: ResponseWriter,
    guards: "GuardedRequest | None",
    held: Slot,
) -> "CachedRequest | None":
    """Return the request's part in the cache; `None` if neither side asks for one."""
    assert runtime.cache is not None
    assert gateway.cache is not None
    resolved = with_operator_values(runtime.table.routes[record.route], request)
    use = runtime.cache.use(record.route, resolved, response.exchange.fields)
    if use is None:
        return None
    from strowger_gateway.gateway.content.cache.cached_request import (
        CachedRequest,  # late: only with the cache
    )

    return CachedRequest(
        gateway.cache,
        runtime.cache,
        use,
        resolved,
        record,
        response.own_headers if runtime.config.server.expose_headers else None,
        partial(_offload, gateway, record.holder, held.size) if record.large else None,
        lambda: guards is not None and bool(guards.findings),
    )


async def _offload(
    gateway: Gateway, holder: Holder, size: int, call: Callable[[], str | None]
) -> str | None:
    """Run a call in a thread, when it is its caller's turn."""
    return await gateway.large_bodies.run(call, holder, size)
