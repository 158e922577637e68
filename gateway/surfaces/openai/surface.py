"""The OpenAI surface and its routes: chat, completions and embeddings."""

from typing import Final, overload

from strowger_gateway.gateway.surfaces.base import (
    EmbeddingsRenderer,
    Inbound,
    Renderer,
)
from strowger_gateway.gateway.surfaces.field_names import AS_IN_CHAT
from strowger_gateway.gateway.surfaces.hot_route import HotRoute
from strowger_gateway.gateway.surfaces.json_surface import JsonSurface
from strowger_gateway.gateway.surfaces.openai.bodies import (
    OpenAIEmbeddingsRenderer,
    error_body,
    voyage_error,
)
from strowger_gateway.gateway.surfaces.openai.chat_render import ChatRenderer, ReasoningNames
from strowger_gateway.gateway.surfaces.openai.completion_render import CompletionRenderer
from strowger_gateway.gateway.surfaces.openai.envelope import created_at
from strowger_gateway.gateway.surfaces.openai.parse import (
    CHAT_READER,
    parse_chat,
    parse_completion,
    parse_embeddings,
    prompted_reader,
)
from strowger_gateway.gateway.surfaces.openai.plain_chat import plain_chat
from strowger_gateway.gateway.surfaces.openai.wire import ChatWire, CompletionWire, EmbeddingsWire
from strowger_gateway.schemas.errors import GatewayError
from strowger_gateway.schemas.fields import Task
from strowger_gateway.schemas.requests import (
    ChatRequest,
    CompletionRequest,
    EmbeddingsRequest,
    GenerateRequest,
    Request,
)

__all__ = (
    "CHAT",
    "COMPLETIONS",
    "EMBEDDINGS",
    "ROUTES",
    "OpenAISurface",
    "created_at",
    "error_body",
)


class OpenAISurface(JsonSurface):
    """One task of the dialect; see `strowger_gateway.gateway.surfaces.base.Surface`.

    reasoning: the field for a model's reasoning.
    running_usage: see OpenAIRenderer.
    """

    name = "openai"
    field_names = AS_IN_CHAT

    def __init__(
        self, task: Task, *, reasoning: ReasoningNames = "both", running_usage: bool = False
    ) -> None:
        self.task: Task = task
        self._reasoning: ReasoningNames = reasoning
        self._running_usage = running_usage
        self.plain = plain_chat if task == "chat" else None

    def parse(self, inbound: Inbound) -> Request:
        body, model = inbound.body, inbound.model
        match self.task:
            case "chat":
                reader = prompted_reader() if inbound.prompts else CHAT_READER
                return parse_chat(body, max_choices=inbound.max_choices, model=model, reader=reader)
            case "completion":
                return parse_completion(body, max_choices=inbound.max_choices, model=model)
            case "embeddings":
                return parse_embeddings(body, model=model)
            case _:
                raise _not_served(self.task)

    @overload
    def renderer(self, request: EmbeddingsRequest, request_id: str) -> EmbeddingsRenderer: ...
    @overload
    def renderer(self, request: GenerateRequest, request_id: str) -> Renderer: ...
    def renderer(self, request: Request, request_id: str) -> Renderer | EmbeddingsRenderer:
        created = created_at(request_id)
        match request:
            case ChatRequest():
                return ChatRenderer(
                    request,
                    id=f"chatcmpl-{request_id}",
                    created=created,
                    reasoning=self._reasoning,
                    running_usage=self._running_usage,
                )
            case CompletionRequest():
                return CompletionRenderer(
                    request,
                    id=f"cmpl-{request_id}",
                    created=created,
                    running_usage=self._running_usage,
                )
            case EmbeddingsRequest():
                return OpenAIEmbeddingsRenderer(request, id=f"embd-{request_id}")
            case _:
                raise _not_served(request.task)

    def error(self, exc: GatewayError) -> bytes:
        return error_body(exc)

    def error_about(self, exc: GatewayError, request: Request | None) -> bytes:
        """See Surface. Of all clients of embeddings, only Voyage's sends `truncation`."""
        if isinstance(request, EmbeddingsRequest) and "truncation" in request.extra:
            return voyage_error(exc)
        return error_body(exc)


def _not_served(task: Task) -> GatewayError:
    if task == "tokens":
        return GatewayError("the OpenAI dialect has no token-in, token-out task")
    return GatewayError(f"this surface of the OpenAI dialect has no {task}")


CHAT: Final = OpenAISurface("chat")
COMPLETIONS: Final = OpenAISurface("completion")
EMBEDDINGS: Final = OpenAISurface("embeddings")

ROUTES: Final = (
    HotRoute(
        path="/v1/chat/completions",
        surface=CHAT,
        body=lambda: ChatWire,
        summary="Answer a conversation",
    ),
    HotRoute(
        path="/v1/completions",
        surface=COMPLETIONS,
        body=lambda: CompletionWire,
        summary="Continue a text",
    ),
    HotRoute(
        path="/v1/embeddings",
        surface=EMBEDDINGS,
        body=lambda: EmbeddingsWire,
        summary="Turn inputs into vectors",
    ),
)
