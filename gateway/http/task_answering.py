"""The last stage of a request whose surface serves a task of `schemas/tasks`."""

import asyncio
from collections.abc import Awaitable
from functools import partial
from typing import Final

from msgspec.structs import replace

from strowger_gateway.gateway.assembly.gateway import Gateway
from strowger_gateway.gateway.http.answering import AnswerRequest, estimate_prompt
from strowger_gateway.gateway.http.embedding_usage import ESTIMATED
from strowger_gateway.gateway.routing.attempt_usage import note_searches
from strowger_gateway.gateway.routing.execution import pipeline
from strowger_gateway.gateway.routing.planning.plan import Plan
from strowger_gateway.gateway.routing.planning.request_facts import estimated_tokens
from strowger_gateway.gateway.server.asgi.response import DisconnectGuard
from strowger_gateway.gateway.stages.request_context import RequestContext
from strowger_gateway.gateway.stages.stage import BaseStage, Place
from strowger_gateway.gateway.surfaces.base import Headers
from strowger_gateway.gateway.surfaces.hot_route import HotRoute
from strowger_gateway.gateway.surfaces.task_surface import TaskSurface
from strowger_gateway.schemas.tasks.task import TaskAnswer, TaskRequest
from strowger_gateway.schemas.usage import Usage

DIRECT: Final = 1024
"""Items whose answer is written in the event loop, in about 1 ms."""


class AnswerTask(BaseStage):
    """Raises what a backend's failure is, and ClientGone."""

    place = Place.ANSWER
    leaves = True

    def __init__(self, surface: TaskSurface) -> None:
        self._surface = surface

    def enter(self, request: RequestContext) -> Awaitable[None] | None:
        """See Stage."""
        sent, plan = request.request, request.plan
        assert isinstance(sent, TaskRequest)
        assert plan is not None
        return self._perform(request, sent, plan)

    def leave(self, request: RequestContext) -> None:
        """See Stage."""
        estimate_prompt(request)
        if isinstance(request.request, TaskRequest):
            note_searches(request.record, request.request)

    async def _perform(self, request: RequestContext, sent: TaskRequest, plan: Plan) -> None:
        record, response = request.record, request.response
        with DisconnectGuard(request.exchange):
            collect = partial(pipeline.perform, plan, sent, record, tenant=record.caller)
            for one in request.filters:
                collect = partial(one.task, plan, collect)
            answer = await collect()
        answer = await _with_usage(answer, sent, response.own_headers, large=record.large)
        renderer = self._surface.task_renderer(sent, record.request_id)
        if sent.items <= DIRECT or record.room is None:
            body = renderer.answer(answer)
        else:
            size = sum(map(len, sent.texts))
            body = await record.room.run(partial(renderer.answer, answer), record.holder, size)
        named = record.backend if record.participation.shown else record.model
        await response.whole(200, body, renderer.headers(named))


def answering_stage(gateway: Gateway, at: HotRoute) -> AnswerRequest | AnswerTask:
    """Return the last stage of a route."""
    if isinstance(at.surface, TaskSurface):
        return AnswerTask(at.surface)
    return AnswerRequest(gateway, at)


async def _with_usage(
    answer: TaskAnswer, request: TaskRequest, headers: Headers, *, large: bool
) -> TaskAnswer:
    """Return the answer with counts: estimated, and said so, if the backend counts nothing."""
    usage = answer.usage
    if usage.prompt_tokens is not None or usage.total_tokens is not None:
        return answer
    tokens = await asyncio.to_thread(estimated_tokens, request) if large else None
    tokens = estimated_tokens(request) if tokens is None else tokens
    headers.append(ESTIMATED)
    return replace(answer, usage=Usage(prompt_tokens=tokens, total_tokens=tokens, raw=usage.raw))
