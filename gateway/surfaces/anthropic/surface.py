"""The Anthropic surface and its routes."""

from typing import TYPE_CHECKING, Final, overload

from strowger_gateway.gateway.surfaces.anthropic.errors import error_body, status_of
from strowger_gateway.gateway.surfaces.anthropic.field_names import NAMES
from strowger_gateway.gateway.surfaces.anthropic.frames import ERROR, PING
from strowger_gateway.gateway.surfaces.base import EmbeddingsRenderer, Inbound, Renderer
from strowger_gateway.gateway.surfaces.hot_route import HotRoute
from strowger_gateway.gateway.surfaces.json_surface import JsonSurface
from strowger_gateway.gateway.surfaces.late_module import LateModule
from strowger_gateway.gateway.surfaces.sse import AGENTS_COMMIT_S
from strowger_gateway.schemas.errors import GatewayError
from strowger_gateway.schemas.fields import Task
from strowger_gateway.schemas.plain_answer import PlainAnswer
from strowger_gateway.schemas.requests import (
    ChatRequest,
    EmbeddingsRequest,
    GenerateRequest,
    Request,
)

if TYPE_CHECKING:
    from strowger_gateway.gateway.surfaces.anthropic import translation
else:
    translation = LateModule("strowger_gateway.gateway.surfaces.anthropic.translation")

__all__ = ("MESSAGES", "ROUTES", "MessagesSurface", "error_body")


def _plain(answer: PlainAnswer, request: ChatRequest, request_id: str) -> bytes:
    return translation.plain_message(answer, request, request_id)


class MessagesSurface(JsonSurface):
    """Conversations as Anthropic's clients write them; see
    `strowger_gateway.gateway.surfaces.base.Surface`.
    """

    name = "anthropic"
    task: Task = "chat"
    keep_alive = PING
    commit_after_s = AGENTS_COMMIT_S
    error_event = ERROR
    request_id_header = b"request-id"
    field_names = NAMES
    plain = staticmethod(_plain)
    late = True

    def __init__(self, *, counting: bool = False) -> None:
        """counting: requests are only counted, so that they need no `max_tokens`."""
        self._counting = counting

    def status_of(self, exc: GatewayError) -> int:
        return status_of(exc)

    def parse(self, inbound: Inbound) -> Request:
        return translation.parse_messages(
            inbound.body,
            model=inbound.model,
            headers=inbound.headers,
            counting=self._counting,
        )

    @overload
    def renderer(self, request: EmbeddingsRequest, request_id: str) -> EmbeddingsRenderer: ...
    @overload
    def renderer(self, request: GenerateRequest, request_id: str) -> Renderer: ...
    def renderer(self, request: Request, request_id: str) -> Renderer | EmbeddingsRenderer:
        if not isinstance(request, ChatRequest):
            raise GatewayError("the Messages API has only conversations")
        return translation.MessagesRenderer(request, id=f"msg_{request_id}")

    def error(self, exc: GatewayError) -> bytes:
        return error_body(exc)


MESSAGES: Final = MessagesSurface()
COUNTING: Final = MessagesSurface(counting=True)

ROUTES: Final = (
    HotRoute(
        path="/v1/messages",
        surface=MESSAGES,
        body=lambda: translation.MessagesWire,
        summary="Answer a conversation, as Anthropic does",
    ),
    HotRoute(
        path="/v1/messages/count_tokens",
        surface=COUNTING,
        body=lambda: translation.MessagesWire,
        summary="Count the tokens of a conversation, as Anthropic does",
        counts=True,
    ),
)
