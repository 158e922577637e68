"""The cheapest request that shows whether a backend serves a model."""

import asyncio
import re
from collections.abc import AsyncGenerator, Callable, Iterator
from contextlib import aclosing

from msgspec.structs import replace

from strowger_gateway.adapters.capabilities import offered
from strowger_gateway.gateway.backends.upstream.base import Call, task_upstream_of
from strowger_gateway.gateway.platform.clock import now
from strowger_gateway.gateway.routing.planning.route import Backend
from strowger_gateway.gateway.routing.request_record import new_request_id
from strowger_gateway.schemas.errors import UpstreamRejected
from strowger_gateway.schemas.events import Event
from strowger_gateway.schemas.fields import Task
from strowger_gateway.schemas.messages import Message, TextPart
from strowger_gateway.schemas.requests import (
    ChatRequest,
    CompletionRequest,
    EmbeddingsRequest,
    Request,
    TokenRequest,
)
from strowger_gateway.schemas.sampling import Sampling
from strowger_gateway.schemas.tasks.classify import ClassifyRequest
from strowger_gateway.schemas.tasks.moderate import ModerateRequest
from strowger_gateway.schemas.tasks.pool import PoolRequest
from strowger_gateway.schemas.tasks.rerank import RerankRequest
from strowger_gateway.schemas.tasks.score import ScoreRequest
from strowger_gateway.schemas.tasks.task import TaskRequest, Unsampled

ONE, FEW = Sampling(max_tokens=1), Sampling(max_tokens=16)
"""What is asked for, and what if that is too little: some APIs take no fewer."""

_CHEAPEST: dict[Task, Callable[[str], Request]] = {
    "chat": lambda model: ChatRequest(
        model=model, messages=(Message(role="user", content="Hi"),), sampling=ONE
    ),
    "completion": lambda model: CompletionRequest(model=model, prompts=("Hi",), sampling=ONE),
    "tokens": lambda model: TokenRequest(model=model, tokens=(1,), sampling=ONE),
    "embeddings": lambda model: EmbeddingsRequest(model=model, inputs=("Hi",)),
    "rerank": lambda model: RerankRequest(model=model, query="Hi", documents=("Hi",)),
    "score": lambda model: ScoreRequest(model=model, queries=("Hi",), documents=("Hi",)),
    "classify": lambda model: ClassifyRequest(model=model, inputs=(("Hi",),)),
    "pool": lambda model: PoolRequest(model=model, inputs=("Hi",)),
    "moderate": lambda model: ModerateRequest(model=model, inputs=((TextPart(text="Hi"),),)),
}
"""In order of preference: a model for one task rejects requests of others."""

_RAN_OUT = re.compile(r"max_\w*tokens .{0,40}limit was reached", re.IGNORECASE)
"""A model that reasons has used up its tokens before its first word: it works."""

_TOO_FEW = re.compile(r"max_\w*tokens|integer_below_min", re.IGNORECASE)


def smallest_requests(backend: Backend) -> Iterator[tuple[Task, Request]]:
    """Yield the cheapest request of each task that the backend's API has, the likeliest first."""
    for task, request in _CHEAPEST.items():
        if offered(backend.supports, task) is not None:
            yield task, request(backend.model)


async def send(backend: Backend, request: Request, timeout_s: float) -> None:
    """Send it and read the answer; ask for a few tokens if one is too few.

    Raises GatewayError, TimeoutError.
    """
    try:
        await _send(backend, request, timeout_s)
    except UpstreamRejected as exc:
        if _RAN_OUT.search(exc.message):
            return
        if isinstance(request, Unsampled) or not _TOO_FEW.search(exc.message):
            raise
        await _send(backend, replace(request, sampling=FEW), timeout_s)


async def _send(backend: Backend, request: Request, timeout_s: float) -> None:
    call = Call(model=backend.model, deadline=now() + timeout_s, request_id=new_request_id())
    async with asyncio.timeout(timeout_s):
        if isinstance(request, EmbeddingsRequest):
            await backend.upstream.embed(request, call)
            return
        if isinstance(request, TaskRequest):
            performs = task_upstream_of(backend.upstream)
            assert performs is not None
            await performs.perform(request, call)
            return
        source: AsyncGenerator[list[Event], None] = backend.upstream.generate(request, call)
        async with aclosing(source):
            async for _ in source:
                pass
