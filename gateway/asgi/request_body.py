"""Read a request's head and body, within the limits that protect the gateway."""

from collections.abc import Mapping
from typing import Protocol

from litestar.types import ReceiveMessage
from msgspec import Struct

from gateway.asgi.client_timeouts import check_receive_deadline
from gateway.asgi.disconnect import ClientGone
from gateway.asgi.exchange import HotExchange
from schemas.errors import BodyTooLarge, UnsupportedMediaType


class Head(Struct, frozen=True, kw_only=True, gc=False):
    """The headers that the request path needs, found in one pass. length: bytes, -1 if unknown."""

    content_type: bytes = b""
    length: int = -1
    request_id: str = ""
    origin: bytes = b""
    encoding: bytes = b""


def read_head(fields: Mapping[bytes, bytes]) -> Head:
    """fields: the request's headers by name."""
    get = fields.get
    return Head(
        content_type=get(b"content-type", b""),
        length=int(get(b"content-length", -1)),
        request_id=get(b"x-request-id", b"").decode("latin-1"),
        origin=get(b"origin", b""),
        encoding=get(b"content-encoding", b"").strip().lower(),
    )


def check_type(head: Head, others: tuple[bytes, ...] = ()) -> None:
    """Raise UnsupportedMediaType unless the body is JSON, one of `others`, or has no type."""
    kind = head.content_type.partition(b";")[0].strip().lower()
    if not kind or kind == b"application/json" or kind.endswith(b"+json") or kind in others:
        return
    allowed = b" or ".join((b"application/json", *others)).decode()
    raise UnsupportedMediaType(
        f"content-type: got {kind.decode('latin-1')!r}, this route accepts {allowed}"
    )


def check_encoding(head: Head, known: tuple[bytes, ...]) -> None:
    """Raise UnsupportedMediaType for a content-encoding that is not in `known`."""
    if not head.encoding or head.encoding == b"identity" or head.encoding in known:
        return
    allowed = b" or ".join(known).decode()
    raise UnsupportedMediaType(
        f"content-encoding: got {head.encoding.decode('latin-1')!r}, this route accepts {allowed}, "
        "or none",
        param="content-encoding",
    )


class BodyMemory(Protocol):
    """The memory budget of bodies. `buffer` raises Unavailable when it is exhausted."""

    def buffer(self, size: int) -> None: ...

    def release(self, size: int) -> None: ...


async def read_body(head: Head, exchange: HotExchange, limit: int, memory: BodyMemory) -> bytes:
    """Return the body; claim memory as pieces arrive. The caller releases it, also after an error.

    Raises BodyTooLarge over `limit` bytes, RequestTimeout when pieces arrive too slowly,
    Unavailable when no memory is left, and ClientGone when the client disconnects half-way.
    """
    if head.length > limit:
        raise BodyTooLarge(f"the body has {head.length} bytes; the maximum is {limit}")
    whole = exchange.whole_body()
    if whole is not None and len(whole) <= limit:
        memory.buffer(len(whole))
        return whole
    pieces = _Pieces(limit, memory)
    if whole is not None:
        pieces.claim(whole)
    more = pieces.add(await exchange.receive())
    while more:
        check_receive_deadline(exchange.scope)
        more = pieces.add(await exchange.receive())
    return pieces.whole()


class _Pieces:
    """A body that arrives in several pieces."""

    def __init__(self, limit: int, memory: BodyMemory) -> None:
        self._pieces: list[bytes] = []
        self._size = 0
        self._limit = limit
        self._memory = memory

    def add(self, message: ReceiveMessage) -> bool:
        """Return whether more pieces follow."""
        if message["type"] != "http.request":
            raise ClientGone("the client closed the connection before the body's end")
        self.claim(message["body"])
        return message["more_body"]

    def claim(self, piece: bytes) -> None:
        """Add a piece within the limits."""
        if self._size + len(piece) > self._limit:
            raise BodyTooLarge(f"the body is larger than the maximum of {self._limit} bytes")
        self._memory.buffer(len(piece))
        self._size += len(piece)
        self._pieces.append(piece)

    def whole(self) -> bytes:
        return b"".join(self._pieces)
