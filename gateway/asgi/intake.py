"""Reading a request's head and body, within the limits that protect the gateway."""

from litestar.types import HTTPScope, Receive
from msgspec import Struct

from gateway.asgi.hangup import ClientGone
from schemas.errors import BodyTooLarge, UnsupportedMediaType


class Head(Struct, frozen=True, kw_only=True, gc=False):
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


def check_type(head: Head, others: tuple[bytes, ...] = ()) -> None:
    """Raises UnsupportedMediaType unless the body is JSON or one of `others`, or says nothing."""
    kind = head.content_type.partition(b";")[0].strip().lower()
    if not kind or kind == b"application/json" or kind.endswith(b"+json") or kind in others:
        return
    allowed = b" or ".join((b"application/json", *others)).decode()
    raise UnsupportedMediaType(
        f"content-type: got {kind.decode('latin-1')!r}, this route takes {allowed}"
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
