"""Surfaces of tasks with one whole answer that is neither text nor vectors (`schemas/tasks`)."""

from typing import Protocol, overload

from strowger_gateway.gateway.surfaces.base import (
    EmbeddingsRenderer,
    Headers,
    Inbound,
    Renderer,
)
from strowger_gateway.gateway.surfaces.field_names import AS_IN_CHAT
from strowger_gateway.gateway.surfaces.json_surface import JsonSurface
from strowger_gateway.schemas.errors import GatewayError
from strowger_gateway.schemas.fields import Task
from strowger_gateway.schemas.requests import EmbeddingsRequest, GenerateRequest, Request
from strowger_gateway.schemas.tasks.task import TaskAnswer, TaskRequest


class TaskRenderer(Protocol):
    """Write the answer to one request."""

    def headers(self, backend: str) -> Headers:
        """As in `strowger_gateway.gateway.surfaces.base.Renderer`; called after `answer`."""
        ...

    def answer(self, answer: TaskAnswer) -> bytes: ...


class TaskSurface(JsonSurface):
    """See `strowger_gateway.gateway.surfaces.base.Surface`: one task of one dialect."""

    name: str
    task: Task | None
    field_names = AS_IN_CHAT
    late = True

    def parse(self, inbound: Inbound) -> Request:
        """See Surface."""
        raise NotImplementedError

    def task_renderer(self, request: TaskRequest, request_id: str) -> TaskRenderer:
        """Return a new renderer for the answer to `request`, which this surface parsed."""
        raise NotImplementedError

    def error(self, exc: GatewayError) -> bytes:
        """See Surface."""
        raise NotImplementedError

    @overload
    def renderer(self, request: EmbeddingsRequest, request_id: str) -> EmbeddingsRenderer: ...
    @overload
    def renderer(self, request: GenerateRequest, request_id: str) -> Renderer: ...
    def renderer(
        self, request: GenerateRequest | EmbeddingsRequest, request_id: str
    ) -> Renderer | EmbeddingsRenderer:
        """See Surface. `task_renderer` is the one of this surface."""
        raise GatewayError(f"this surface has no {request.task}")
