"""The Databricks surface: its invocations, and the paths that its OpenAI client uses."""

from typing import TYPE_CHECKING, Final, overload

from strowger_gateway.gateway.surfaces.base import (
    EmbeddingsRenderer,
    Inbound,
    Renderer,
)
from strowger_gateway.gateway.surfaces.databricks.errors import error_body
from strowger_gateway.gateway.surfaces.field_names import AS_IN_CHAT
from strowger_gateway.gateway.surfaces.hot_route import HotRoute
from strowger_gateway.gateway.surfaces.json_surface import JsonSurface
from strowger_gateway.gateway.surfaces.late_module import LateModule
from strowger_gateway.gateway.surfaces.openai.surface import OpenAISurface
from strowger_gateway.schemas.errors import GatewayError
from strowger_gateway.schemas.fields import Task
from strowger_gateway.schemas.requests import EmbeddingsRequest, GenerateRequest, Request

if TYPE_CHECKING:
    from strowger_gateway.gateway.surfaces.databricks import translation
else:
    translation = LateModule("strowger_gateway.gateway.surfaces.databricks.translation")

BLANK_LINE: Final = b"\n\n"
"""A frame without data. MLflow's client skips blank lines, and reports comments as failures."""


class DatabricksSurface(JsonSurface):
    """See `strowger_gateway.gateway.surfaces.base.Surface`. task: `None` if the body determines
    it.
    """

    name = "databricks"
    keep_alive = BLANK_LINE
    comments = False
    field_names = AS_IN_CHAT
    late = True

    def __init__(self, task: Task | None = None) -> None:
        self.task: Task | None = task
        self._openai = OpenAISurface("chat", running_usage=True)

    def parse(self, inbound: Inbound) -> Request:
        body, model, most = inbound.body, inbound.model, inbound.max_choices
        if self.task is None:
            return translation.parse_invocation(body, model=model, max_choices=most)
        return translation.parse_task(self.task, body, model=model, max_choices=most)

    @overload
    def renderer(self, request: EmbeddingsRequest, request_id: str) -> EmbeddingsRenderer: ...
    @overload
    def renderer(self, request: GenerateRequest, request_id: str) -> Renderer: ...
    def renderer(
        self, request: GenerateRequest | EmbeddingsRequest, request_id: str
    ) -> Renderer | EmbeddingsRenderer:
        if isinstance(request, EmbeddingsRequest):
            return translation.DatabricksEmbeddingsRenderer(
                self._openai.renderer(request, request_id)
            )
        return translation.DatabricksRenderer(self._openai.renderer(request, request_id))

    def error(self, exc: GatewayError) -> bytes:
        return error_body(exc)


INVOCATIONS: Final = DatabricksSurface()
CHAT: Final = DatabricksSurface("chat")
COMPLETIONS: Final = DatabricksSurface("completion")
EMBEDDINGS: Final = DatabricksSurface("embeddings")

ROUTES: Final = (
    HotRoute(
        path="/serving-endpoints/chat/completions",
        surface=CHAT,
        body=lambda: translation.DatabricksChatWire,
        summary="Answer a conversation, as Databricks does",
    ),
    HotRoute(
        path="/serving-endpoints/completions",
        surface=COMPLETIONS,
        body=lambda: translation.DatabricksCompletionWire,
        summary="Continue texts, as Databricks does",
    ),
    HotRoute(
        path="/serving-endpoints/embeddings",
        surface=EMBEDDINGS,
        body=lambda: translation.DatabricksEmbeddingsWire,
        summary="Turn inputs into vectors, as Databricks does",
    ),
    HotRoute(
        path="/serving-endpoints/{model}/invocations",
        surface=INVOCATIONS,
        body=lambda: translation.InvocationWire,
        summary="Any of the three tasks, determined by the body",
    ),
)
