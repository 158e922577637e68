"""Ollama's surfaces and their routes: from lines of JSON to events, and back.

1. `parse.py` reads a body: `options.py` its options, `conversation.py` its messages and tools. What
   only Ollama has is kept for a backend that is an Ollama server, and left out for any other.
2. A prompt with the model's template is a conversation of one turn. Its answer carries the
   conversation so far (`carried_context.py`).
3. `render.py` writes the answer, whole or in lines, with the times of `lines.py`. Streaming is what
   clients get unless they say otherwise.
4. A request without content loads a model: it is answered at once (`loading.py`).
5. A model's name may end in `:latest`, or not.

The first request imports what translates (`translation.py`).
"""

from typing import TYPE_CHECKING, Final, Literal, overload

from strowger_gateway.gateway.surfaces.base import EmbeddingsRenderer, Inbound, Renderer
from strowger_gateway.gateway.surfaces.field_names import FieldNames
from strowger_gateway.gateway.surfaces.hot_route import HotRoute
from strowger_gateway.gateway.surfaces.json_surface import JsonSurface
from strowger_gateway.gateway.surfaces.late_module import LateModule
from strowger_gateway.gateway.surfaces.ollama.errors import error_body
from strowger_gateway.gateway.surfaces.ollama.field_names import (
    CHAT_NAMES,
    EMBED_NAMES,
    EMBEDDING_NAMES,
    GENERATE_NAMES,
)
from strowger_gateway.gateway.surfaces.ollama.lines import NDJSON, SPACE
from strowger_gateway.gateway.surfaces.ollama.loading import (
    EMBEDDING,
    EMBEDDINGS,
    MESSAGE,
    RESPONSE,
    loaded,
    loads,
)
from strowger_gateway.gateway.surfaces.sse import AGENTS_COMMIT_S
from strowger_gateway.schemas.errors import GatewayError
from strowger_gateway.schemas.fields import Task
from strowger_gateway.schemas.requests import (
    EmbeddingsRequest,
    GenerateRequest,
    Request,
    TokenRequest,
)
from strowger_gateway.schemas.tasks.task import TaskRequest

if TYPE_CHECKING:
    from strowger_gateway.gateway.surfaces.ollama import translation
else:
    translation = LateModule("strowger_gateway.gateway.surfaces.ollama.translation")

__all__ = ("ROUTES", "OllamaSurface")

Kind = Literal["chat", "generate", "embed", "embedding"]

_NAMES: Final[dict[Kind, FieldNames]] = {
    "chat": CHAT_NAMES,
    "generate": GENERATE_NAMES,
    "embed": EMBED_NAMES,
    "embedding": EMBEDDING_NAMES,
}
_EMPTY: Final[dict[Kind, bytes]] = {
    "chat": MESSAGE,
    "generate": RESPONSE,
    "embed": EMBEDDINGS,
    "embedding": EMBEDDING,
}
_TASKS: Final[dict[Kind, Task | None]] = {
    "chat": "chat",
    "generate": None,
    "embed": "embeddings",
    "embedding": "embeddings",
}


class OllamaSurface(JsonSurface):
    """One route of Ollama's API; see `strowger_gateway.gateway.surfaces.base.Surface`."""

    name = "ollama"
    keep_alive = SPACE
    comments = False
    commit_after_s = AGENTS_COMMIT_S
    stream_media_type = NDJSON
    late = True

    def __init__(self, kind: Kind) -> None:
        self._kind: Kind = kind
        self.task: Task | None = _TASKS[kind]
        self.field_names = _NAMES[kind]

    def parse(self, inbound: Inbound) -> Request:
        match self._kind:
            case "chat":
                return translation.parse_chat(inbound.body, model=inbound.model)
            case "generate":
                return translation.parse_generate(inbound.body, model=inbound.model)
            case "embed":
                return translation.parse_embed(inbound.body, model=inbound.model)
            case "embedding":
                return translation.parse_embedding(inbound.body, model=inbound.model)

    @overload
    def renderer(self, request: EmbeddingsRequest, request_id: str) -> EmbeddingsRenderer: ...
    @overload
    def renderer(self, request: GenerateRequest, request_id: str) -> Renderer: ...
    def renderer(self, request: Request, request_id: str) -> Renderer | EmbeddingsRenderer:
        if isinstance(request, EmbeddingsRequest):
            if self._kind == "embed":
                return translation.EmbedRenderer(request, request_id)
            return translation.EmbeddingRenderer()
        if isinstance(request, TokenRequest | TaskRequest):
            raise GatewayError(f"Ollama's API has no {request.task} requests")
        if self._kind == "chat":
            return translation.OllamaChatRenderer(request, request_id)
        return translation.OllamaGenerateRenderer(request, request_id)

    def at_once(self, request: Request) -> bytes:
        """Return the answer to a request that only loads a model; b"" for any other."""
        return loaded(request, _EMPTY[self._kind]) if loads(request) else b""

    def last_frame(self, body: bytes) -> bytes:
        return body + b"\n"

    def error(self, exc: GatewayError) -> bytes:
        return error_body(exc)


CHAT: Final = OllamaSurface("chat")
GENERATE: Final = OllamaSurface("generate")
EMBED: Final = OllamaSurface("embed")
OLD_EMBEDDINGS: Final = OllamaSurface("embedding")

ROUTES: Final = (
    HotRoute(
        path="/api/chat",
        surface=CHAT,
        body=lambda: translation.OllamaChatWire,
        summary="Answer a conversation, as Ollama does",
        tagged=True,
        at_once=CHAT.at_once,
    ),
    HotRoute(
        path="/api/generate",
        surface=GENERATE,
        body=lambda: translation.OllamaGenerateWire,
        summary="Answer or complete a prompt, as Ollama does",
        tagged=True,
        at_once=GENERATE.at_once,
    ),
    HotRoute(
        path="/api/embed",
        surface=EMBED,
        body=lambda: translation.EmbedWire,
        summary="Embed texts, as Ollama does",
        tagged=True,
        at_once=EMBED.at_once,
    ),
    HotRoute(
        path="/api/embeddings",
        surface=OLD_EMBEDDINGS,
        body=lambda: translation.EmbeddingWire,
        summary="Embed one text, as Ollama did before /api/embed",
        tagged=True,
        at_once=OLD_EMBEDDINGS.at_once,
    ),
)
