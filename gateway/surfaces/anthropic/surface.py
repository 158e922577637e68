"""The Anthropic surface and its routes: from a Messages request to events, and back.

1. `parse.py` reads the body: each known field within its range (`wire.py`), and unknown ones into
   `ChatRequest.extra`. The client's own JSON of messages, tools and some more is kept as
   `Original`, so that a backend of this dialect receives it as it was.
2. `conversation.py` turns `system` and `messages` into ours. The system text is the first message.
   A user's turn becomes several messages if it has tool results: each is one of role `tool`, in
   its place. In an assistant's turn, `tool_use` blocks become calls, and thinking becomes thoughts.
3. `blocks.py` turns images and documents into parts in OpenAI's form, which other backends
   understand. A block that only Anthropic has stays as it is.
4. `proofs.py` keeps the signatures of reasoning: Claude's as they are, another vendor's with a name
   in front, so that only that vendor receives it again when the client returns it.
5. A backend answers with events. `render.py` writes them: a whole answer in one piece, a stream as
   `message_start`, blocks, `message_delta` and `message_stop`. A plain answer has no events
   (`plain_message.py`).
6. In a stream, each block ends before the next one begins. What arrives for another block while the
   arguments of a call are incomplete is held back (`block_writer.py`).
7. An error has Anthropic's types, and a status that its clients know: 500 instead of 502, 529
   instead of 503 (`errors.py`).

What translates is imported with the first request (`translation.py`).
"""

from typing import TYPE_CHECKING, Final, overload

from strowger_gateway.gateway.surfaces.anthropic.errors import ERROR, error_body, status_of
from strowger_gateway.gateway.surfaces.anthropic.field_names import NAMES
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
    keep_alive = b'event: ping\ndata: {"type":"ping"}\n\n'
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
            prompts=inbound.prompts,
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
