"""Reading a request's head and body, within the limits that protect the gateway."""

from litestar.types import HTTPScope, Receive
from msgspec import Struct

from gateway.asgi.hangup import ClientGone
from schemas.errors import BodyTooLarge, UnsupportedMediaType


class Head(Struct, frozen=True, kw_only=True):
    """The headers that the request path reads, found in one pass. length: bytes, -1 unknown."""

    content_type: bytes = b""
    length: int = -1
    request_id: str = ""
    origin: bytes = b""


def read_head(scope: HTTPScope) -> Head:
    content_type = origin = b""
    length = -1
    request_id = ""
    for name, value in scope["headers"]:
        if name == b"content-type":
            content_type = value
        elif name == b"content-length":
            length = int(value)
        elif name == b"x-request-id":
            request_id = value.decode("latin-1")
        elif name == b"origin":
            origin = value
    return Head(content_type=content_type, length=length, request_id=request_id, origin=origin)


def check_json(head: Head) -> None:
    """Raises UnsupportedMediaType unless the body says it is JSON, or says nothing."""
    kind = head.content_type.partition(b";")[0].strip().lower()
    if kind and kind != b"application/json" and not kind.endswith(b"+json"):
        raise UnsupportedMediaType(
            f"content-type: got {kind.decode('latin-1')!r}, this route takes application/json"
        )


async def read_body(head: Head, receive: Receive, limit: int) -> bytes:
    """Raises BodyTooLarge over `limit` bytes, ClientGone when the client leaves half-way."""
    if head.length > limit:
        raise BodyTooLarge(f"the body has {head.length} bytes; at most {limit} are taken")
    chunks: list[bytes] = []
    size = 0
    while True:
        message = await receive()
        if message["type"] != "http.request":
            raise ClientGone("the client closed the connection before the body's end")
        chunk = message["body"]
        size += len(chunk)
        if size > limit:
            raise BodyTooLarge(f"the body has over {limit} bytes, the most that is taken")
        if not message["more_body"]:
            return b"".join([*chunks, chunk]) if chunks else chunk
        chunks.append(chunk)
