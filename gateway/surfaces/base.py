"""The surface protocol: the seam between a client's wire format and the request path.

A surface translates and does nothing else: no socket and no log. The request path parses a
body, gets a renderer, feeds it the backend's events, and sends the bytes that it returns.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Protocol, overload

from msgspec import Struct
from msgspec.structs import replace

from strowger_gateway.gateway.surfaces.field_names import FieldNames
from strowger_gateway.schemas.answers import Answer, Embeddings
from strowger_gateway.schemas.errors import GatewayError
from strowger_gateway.schemas.events import Event
from strowger_gateway.schemas.fields import Task
from strowger_gateway.schemas.plain_answer import PlainAnswer
from strowger_gateway.schemas.requests import (
    ChatRequest,
    EmbeddingsRequest,
    GenerateRequest,
    Request,
)

JSON = "application/json"
Headers = list[tuple[bytes, bytes]]
EVENT_STREAM = "text/event-stream; charset=utf-8"


class Inbound(Struct, frozen=True, kw_only=True, gc=False):
    """The input of a surface: one request's body, and what comes with it.

    model:       from the path, or the operator's default on routes that name none; "" if the
                 body must name it.
    max_choices: maximum number of answers that one request may ask for.
    headers:     as received, names in lower case.
    stores:      answers can be stored, and stored ones continued.
    prompts:     the gateway has prompts, so a conversation may be empty until one is in it.
    """

    body: bytes
    max_choices: int
    model: str = ""
    headers: Iterable[tuple[bytes, bytes]] = ()
    stores: bool = False
    prompts: bool = False


def plain(inbound: Inbound, body: bytes) -> Inbound:
    """Return the request with the decompressed body, and without its content-encoding."""
    headers = [pair for pair in inbound.headers if pair[0] != b"content-encoding"]
    return replace(inbound, body=body, headers=headers)


class Renderer(Protocol):
    """Write one generated answer, whole or as a stream, never both."""

    def headers(self, backend: str) -> Headers:
        """Return the dialect's own response headers; a content-type replaces the surface's.

        Called once: after `answer`, or before a stream's first frame.
        backend: the backend that answered, as PROVIDER/MODEL.
        """
        ...

    def answer(self, answer: Answer) -> bytes:
        """Return the body of an answer that is not streamed."""
        ...

    def events(self, batch: Sequence[Event]) -> bytes:
        """Return the frames of one batch, joined; b"" if none of it is visible to the client."""
        ...

    def finish(self) -> bytes:
        """Return the last frames of a stream that ended normally."""
        ...

    def error(self, exc: GatewayError) -> bytes:
        """Return the last frame of a stream that failed after it began."""
        ...


class EmbeddingsRenderer(Protocol):
    """Write the answer to an embeddings request."""

    def headers(self, backend: str) -> Headers:
        """As in Renderer; called after `embeddings`."""
        ...

    def embeddings(self, embeddings: Embeddings) -> bytes: ...


PlainRenderer = Callable[[PlainAnswer, ChatRequest, str], bytes]
"""Writes a plain answer to a request, by the request's id, in the bytes of `Renderer.answer`."""


class Surface(Protocol):
    """One wire format; one instance serves all requests.

    name:        the name in logs and metrics.
    task:        the surface's only task, `None` if the body determines it.
    accepts:     content types of bodies besides JSON.
    keep_alive:  a frame that clients ignore, for silent streams.
    commit_after_s: seconds without content after which the head of a stream is sent.
    comments:    clients of its streams ignore comments.
    media_type, stream_media_type: of whole bodies (errors included), and of streams.
    request_id_header: the dialect's own header for the request's id; b"" for none.
    field_names: the client's names of our schema's fields.
    plain:       writes plain answers; `None` if only renderers write answers.
    late:        its first `parse` imports modules for 10 ms or more: call that in a thread.
    """

    @property
    def name(self) -> str: ...
    @property
    def task(self) -> Task | None: ...
    @property
    def accepts(self) -> tuple[bytes, ...]: ...
    @property
    def keep_alive(self) -> bytes: ...
    @property
    def commit_after_s(self) -> float: ...
    @property
    def comments(self) -> bool: ...
    @property
    def media_type(self) -> str: ...
    @property
    def stream_media_type(self) -> str: ...
    @property
    def request_id_header(self) -> bytes: ...
    @property
    def field_names(self) -> FieldNames: ...
    @property
    def plain(self) -> PlainRenderer | None: ...
    @property
    def late(self) -> bool: ...

    def status_of(self, exc: GatewayError) -> int:
        """Return the HTTP status by which the dialect's clients know the error."""
        ...

    def json_length(self, inbound: Inbound) -> int:
        """Return the number of bytes at the start of the body that are JSON."""
        ...

    def parse(self, inbound: Inbound) -> Request:
        """Parse the client's request.

        Raises InvalidRequest, whose `param` is the path of the invalid field.
        """
        ...

    @overload
    def renderer(self, request: EmbeddingsRequest, request_id: str) -> EmbeddingsRenderer:
        """Return a new renderer for the answer to `request`, which this surface parsed.

        request_id: a UUIDv7; the answer's id is derived from it, and its time is the creation
                    time of the answer.
        """
        ...

    @overload
    def renderer(self, request: GenerateRequest, request_id: str) -> Renderer: ...

    def counted(self, tokens: int) -> bytes:
        """Return the body of the answer on a route that counts. tokens: of the prompt."""
        ...

    def error(self, exc: GatewayError) -> bytes:
        """Return the body of an answer that failed before its first byte."""
        ...

    def error_about(self, exc: GatewayError, request: Request | None) -> bytes:
        """Return the same for the client that sent `request`; `None`: it could not be read."""
        ...

    def last_frame(self, body: bytes) -> bytes:
        """Return the frame that ends a stream with an error, given as `error` returns it."""
        ...
