"""The last stage of a request: ask the backends of its plan, and send what they answer.

A whole answer that is nothing but text passes as it is (`collect_plain`); every other one is
events, which the surface's renderer writes. Either passes the request's filters, from the backend
to the client. Streams are in `streaming.py`.
"""

from collections.abc import Awaitable
from functools import partial

from strowger_gateway.gateway.assembly.gateway import Gateway
from strowger_gateway.gateway.http.continuing.response_storage import (
    is_kept,
    kept_body,
    seal_items,
    storing,
)
from strowger_gateway.gateway.http.embedding_usage import rendered, with_usage
from strowger_gateway.gateway.http.streaming import Streaming
from strowger_gateway.gateway.http.token_count import count_tokens
from strowger_gateway.gateway.routing.execution import pipeline
from strowger_gateway.gateway.routing.execution.plain_chat import collect_plain
from strowger_gateway.gateway.routing.participation import NO_PARTICIPATION
from strowger_gateway.gateway.routing.planning.plan import Plan
from strowger_gateway.gateway.routing.planning.request_facts import estimated_tokens
from strowger_gateway.gateway.server.asgi.response import DisconnectGuard
from strowger_gateway.gateway.stages.request_context import RequestContext
from strowger_gateway.gateway.stages.stage import BaseStage, Place
from strowger_gateway.gateway.surfaces.base import PlainRenderer
from strowger_gateway.gateway.surfaces.hot_route import HotRoute
from strowger_gateway.schemas.plain_answer import PlainAnswer
from strowger_gateway.schemas.requests import (
    ChatRequest,
    EmbeddingsRequest,
    GenerateRequest,
)
from strowger_gateway.schemas.tasks.task import Unsampled


def estimate_prompt(request: RequestContext) -> None:
    """Estimate the prompt that no backend has counted, because it costs."""
    record, sent = request.record, request.request
    if record.attempts and (record.usage is None or record.usage.prompt_tokens is None):
        assert sent is not None
        record.estimated_prompt_tokens = estimated_tokens(sent)


class AnswerRequest(BaseStage):
    """Raises what a backend's failure is, and ClientGone."""

    place = Place.ANSWER
    leaves = True

    def __init__(self, gateway: Gateway, at: HotRoute) -> None:
        self._gateway = gateway
        self._surface = at.surface
        self._plain = None if at.counts else at.surface.plain
        self._stores = at.stores
        self._counts = at.counts
        self._at_once = at.at_once
        self._streaming = Streaming(gateway, at)

    def enter(self, request: RequestContext) -> Awaitable[None] | None:
        """See Stage. An answer may be plain if it passes no filter, or only such that let it."""
        sent, plan, plain = request.request, request.plan, self._plain
        assert sent is not None
        assert plan is not None
        if plain is not None and type(sent) is ChatRequest and not sent.stream:
            filters = request.filters
            if not filters or all(one.plainly for one in filters):
                return self._answer_plainly(request, sent, plan, plain)
        if self._counts:
            return count_tokens(request, self._surface)
        if self._at_once is not None and (body := self._at_once(sent)):
            request.record.participation = NO_PARTICIPATION
            return request.response.whole(200, body)
        if type(sent) is EmbeddingsRequest:
            return self._embed(request, sent, plan)
        assert not isinstance(sent, Unsampled), "`AnswerTask` answers these"
        return self._generate(request, sent, plan)

    def leave(self, request: RequestContext) -> None:
        """See Stage."""
        estimate_prompt(request)

    async def _answer_plainly(
        self, request: RequestContext, sent: ChatRequest, plan: Plan, plain: PlainRenderer
    ) -> None:
        record = request.record
        with DisconnectGuard(request.exchange):
            if not request.filters:
                chat = await collect_plain(plan, sent, record, tenant=record.caller)
            else:
                collect = partial(collect_plain, plan, sent, record, tenant=record.caller)
                for one in request.filters:
                    collect = partial(one.chat, plan, collect)
                chat = await collect()
        if self._stores and is_kept(sent):
            body = await kept_body(chat, request, sent, self._surface, self._gateway)
        elif type(chat) is PlainAnswer:
            body = plain(chat, sent, record.request_id)
        else:
            body = self._surface.renderer(sent, record.request_id).answer(chat)
        await request.response.whole(200, body)

    async def _generate(self, request: RequestContext, sent: GenerateRequest, plan: Plan) -> None:
        record = request.record
        renderer = self._surface.renderer(sent, record.request_id)
        if self._stores:
            await seal_items(renderer, request, self._gateway)
        if sent.stream:
            await self._streaming.answer(request, sent, renderer)
            return
        with DisconnectGuard(request.exchange):
            collect = partial(pipeline.collect, plan, sent, record, tenant=record.caller)
            for one in request.filters:
                collect = partial(one.answer, plan, collect)
            answer = await collect()
        kept = storing(request, renderer, self._gateway) if self._stores else None
        body = renderer.answer(answer) if kept is None else await kept.body(answer)
        named = record.backend if record.participation.shown else record.model
        await request.response.whole(200, body, renderer.headers(named))

    async def _embed(self, request: RequestContext, sent: EmbeddingsRequest, plan: Plan) -> None:
        record, response = request.record, request.response
        with DisconnectGuard(request.exchange):
            collect = partial(pipeline.embed, plan, sent, record, tenant=record.caller)
            for one in request.filters:
                collect = partial(one.vectors, plan, collect)
            vectors = await collect()
        vectors = await with_usage(vectors, sent, response.own_headers, large=record.large)
        renderer = self._surface.renderer(sent, record.request_id)
        body = await rendered(renderer.embeddings, vectors, record)
        named = record.backend if record.participation.shown else record.model
        await response.whole(200, body, renderer.headers(named))
