"""The surface of Google's Gemini API and its routes: from a request to events, and back.

1. The path has the model and what is wanted of it (`:generateContent`, …). AI Studio's paths under
   other versions, and Vertex AI's, are other names of the same (`path_aliases.py`).
2. `parse.py` reads the body, with names in either case of protocol buffers (`proto.py`). The
   client's own JSON is kept as `Original`, so that a backend of this dialect receives it as it was.
3. `conversation.py` turns `contents` into our messages, and gives ids to calls that have none.
   `parts.py` turns media into parts in OpenAI's form, which other backends understand; a part that
   only Google has stays as it is.
4. `tools.py` reads functions, whose schemas become JSON Schema (`json_schemas.py`), and Google's
   own tools; `generation_config.py` all of the settings. What only Google has is in
   `ChatRequest.extra`.
5. `carriers.py` keeps another vendor's reasoning in `thoughtSignature`, which clients return.
6. A backend answers with events. `render.py` writes them: a whole answer in one piece, a stream as
   server-sent events, or as a JSON list without `alt=sse`, which is a route of its own.
7. An error is a `google.rpc.Status` (`errors.py`).

What translates is imported with the first request (`translation.py`).
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Final, Literal, overload

from strowger_gateway.gateway.surfaces.base import (
    JSON,
    EmbeddingsRenderer,
    Inbound,
    Renderer,
)
from strowger_gateway.gateway.surfaces.gemini.errors import error_body
from strowger_gateway.gateway.surfaces.gemini.field_names import NAMES
from strowger_gateway.gateway.surfaces.hot_route import HotRoute
from strowger_gateway.gateway.surfaces.json_surface import JsonSurface
from strowger_gateway.gateway.surfaces.late_module import LateModule
from strowger_gateway.gateway.surfaces.sse import AGENTS_COMMIT_S
from strowger_gateway.schemas.errors import GatewayError
from strowger_gateway.schemas.fields import Task
from strowger_gateway.schemas.requests import (
    ChatRequest,
    EmbeddingsRequest,
    GenerateRequest,
    Request,
)

if TYPE_CHECKING:
    from strowger_gateway.gateway.surfaces.gemini import translation
else:
    translation = LateModule("strowger_gateway.gateway.surfaces.gemini.translation")

__all__ = ("ROUTES", "GeminiSurface", "error_body")

Form = Literal["whole", "events", "list", "count", "embed", "batch"]


class GeminiSurface(JsonSurface):
    """One of the API's methods; see `strowger_gateway.gateway.surfaces.base.Surface`.

    Google's clients read a comment in a stream as data, so a silent one gets empty texts.
    """

    name = "gemini"
    keep_alive = (
        b'data: {"candidates":[{"content":{"parts":[{"text":""}],"role":"model"},"index":0}]}\n\n'
    )
    commit_after_s = AGENTS_COMMIT_S
    comments = False
    field_names = NAMES
    late = True

    def __init__(self, form: Form) -> None:
        """form: of the answer; a `list` is a stream too."""
        self.task: Task | None = "embeddings" if form in ("embed", "batch") else "chat"
        self._form = form
        if form == "list":
            self.stream_media_type = JSON
            self.keep_alive = b"\n"

    def parse(self, inbound: Inbound) -> Request:
        match self._form:
            case "count":
                return translation.parse_count(inbound)
            case "embed":
                return translation.parse_embed(inbound)
            case "batch":
                return translation.parse_batch(inbound)
            case _:
                return translation.parse_generate(inbound, stream=self._form != "whole")

    @overload
    def renderer(self, request: EmbeddingsRequest, request_id: str) -> EmbeddingsRenderer: ...
    @overload
    def renderer(self, request: GenerateRequest, request_id: str) -> Renderer: ...
    def renderer(self, request: Request, request_id: str) -> Renderer | EmbeddingsRenderer:
        match request:
            case EmbeddingsRequest():
                return translation.EmbedContentRenderer(request)
            case ChatRequest():
                return translation.GenerateContentRenderer(
                    request, id=request_id, listed=self._form == "list"
                )
            case _:
                raise GatewayError("the Gemini API has only conversations and embeddings")

    def counted(self, tokens: int) -> bytes:
        return b'{"totalTokens":%d}' % tokens

    def error(self, exc: GatewayError) -> bytes:
        return b"[%b]" % error_body(exc) if self._form == "list" else error_body(exc)


MODEL: Final = "/v1beta/models/{model}"


def _route(
    verb: str, form: Form, body: Callable[[], type], summary: str, *, lists: bool = False
) -> HotRoute:
    path = f"{MODEL}:{verb}"
    listed = HotRoute(
        path=f"{path}?alt=json",
        surface=GeminiSurface("list"),
        body=body,
        summary=summary,
        prefixed=True,
    )
    return HotRoute(
        path=path,
        surface=GeminiSurface(form),
        body=body,
        summary=summary,
        counts=form == "count",
        prefixed=True,
        listed=listed if lists else None,
    )


ROUTES: Final = (
    _route(
        "generateContent",
        "whole",
        lambda: translation.GenerateContentWire,
        "Answer a conversation, as Gemini does",
    ),
    _route(
        "streamGenerateContent",
        "events",
        lambda: translation.GenerateContentWire,
        "Answer a conversation with a stream, as Gemini does",
        lists=True,
    ),
    _route(
        "countTokens",
        "count",
        lambda: translation.CountTokensWire,
        "Count the tokens of a conversation, as Gemini does",
    ),
    _route(
        "embedContent",
        "embed",
        lambda: translation.EmbedContentWire,
        "Embed a text, as Gemini does",
    ),
    _route(
        "batchEmbedContents",
        "batch",
        lambda: translation.BatchEmbedContentsWire,
        "Embed texts, as Gemini does",
    ),
)
