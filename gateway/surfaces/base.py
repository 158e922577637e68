"""What a surface is: the seam between a client's wire format and the request path.

A surface translates and does nothing else: no socket, clock or log. The request path parses a
body, asks for a renderer, feeds it what the backend said, and sends the bytes that it returns.
"""

from collections.abc import Iterable, Sequence
from typing import Protocol, overload

from msgspec import Struct
from msgspec.structs import replace

from schemas.answers import Answer, Embeddings
from schemas.errors import GatewayError
from schemas.events import Event
from schemas.fields import Task
from schemas.requests import EmbeddingsRequest, GenerateRequest, Request

JSON = "application/json"
Headers = list[tuple[bytes, bytes]]
EVENT_STREAM = "text/event-stream; charset=utf-8"


class Inbound(Struct, frozen=True, kw_only=True, gc=False):
    """What a surface reads: one request's body, and what stands beside it.

    model:       from the path, or the operator's default on routes that name none; "" where the
                 body must name it.
    max_choices: the most answers that one request may ask for.
    headers:     as they came, names in lower case.
    """

    body: bytes
    max_choices: int
    model: str = ""
    headers: Iterable[tuple[bytes, bytes]] = ()


def plain(inbound: Inbound, body: bytes) -> Inbound:
    """The same with the body that its content-encoding, which is dropped, stood for."""
    headers = [pair for pair in inbound.headers if pair[0] != b"content-encoding"]
    return replace(inbound, body=body, headers=headers)


class Renderer(Protocol):
    """Writes one generated answer, whole or as a stream, never both."""

    def headers(self, backend: str) -> Headers:
        """The dialect's own response headers; a content-type among them replaces the surface's.

        Asked once: after `answer`, or before a stream's first frame.
        backend: who answers, as PROVIDER/MODEL.
        """
        ...

    def answer(self, answer: Answer) -> bytes:
        """The body of an answer that is not streamed."""
        ...

    def events(self, batch: Sequence[Event]) -> bytes:
        """The frames of one batch, joined; b"" where the client sees nothing of it."""
        ...

    def finish(self) -> bytes:
        """The last frames of a stream that ended well."""
        ...

    def error(self, exc: GatewayError) -> bytes:
        """The last frame of a stream that failed after it began."""
        ...


class EmbeddingsRenderer(Protocol):
    """Writes the answer to an embeddings request."""

    def headers(self, backend: str) -> Headers:
        """As Renderer's; asked after `embeddings`."""
        ...

    def embeddings(self, embeddings: Embeddings) -> bytes: ...


class Surface(Protocol):
    """One wire format; one instance serves all requests.

    name:        stands in logs and metrics.
    task:        the only one that it knows, `None` where the body tells.
    accepts:     content types of bodies beside JSON.
    keep_alive:  a frame that clients skip, for streams that are silent.
    media_type, stream_media_type: of whole bodies (errors among them), and of streams.
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
    def media_type(self) -> str: ...
    @property
    def stream_media_type(self) -> str: ...

    def json_length(self, inbound: Inbound) -> int:
        """Bytes of the body that are JSON, from its start."""
        ...

    def parse(self, inbound: Inbound) -> Request:
        """What the client asks for.

        Raises InvalidRequest, whose `param` is the offending field's path.
        """
        ...

    @overload
    def renderer(self, request: EmbeddingsRequest, request_id: str) -> EmbeddingsRenderer:
        """A fresh renderer for the answer to `request`, which this surface parsed.

        request_id: a UUIDv7; the answer's id is made of it, and its time is when the answer
                    was created.
        """
        ...

    @overload
    def renderer(self, request: GenerateRequest, request_id: str) -> Renderer: ...

    def error(self, exc: GatewayError) -> bytes:
        """The body of an answer that failed before its first byte."""
        ...
