"""Check what a request says of its body, and read it, within the limits of the gateway."""

from collections.abc import Mapping
from typing import Protocol

from litestar.types import ReceiveMessage

from strowger_gateway.gateway.server.asgi.client_timeouts import check_receive_deadline
from strowger_gateway.gateway.server.asgi.exchange import ClientGone, HotExchange
from strowger_gateway.schemas.errors import BodyTooLarge, UnsupportedMediaType


def check_type(sent: bytes, others: tuple[bytes, ...] = ()) -> None:
    """Raise UnsupportedMediaType unless the body is JSON, one of `others`, or has no type.

    sent: the content-type, b"" without one.
    """
    if sent == b"application/json":
        return
    kind = sent.partition(b";")[0].strip().lower()
    if not kind or kind == b"application/json" or kind.endswith(b"+json") or kind in others:
        return
    raise UnsupportedMediaType(
        f"content-type: got {kind.decode('latin-1')!r}, this route accepts application/json",
        param="content-type",
    )


def encoding_of(fields: Mapping[bytes, bytes], known: tuple[bytes, ...]) -> bytes:
    """Return the content-encoding, b"" for none. fields: the request's headers by name.

    Raises UnsupportedMediaType if it is not in `known`.
    """
    sent = fields.get(b"content-encoding")
    if sent is None:
        return b""
    encoding = sent.strip().lower()
    if not encoding or encoding == b"identity":
        return b""
    if encoding in known:
        return encoding
    allowed = b" or ".join(known).decode()
    raise UnsupportedMediaType(
        f"content-encoding: got {encoding.decode('latin-1')!r}, this route accepts {allowed}, "
        "or none",
        param="content-encoding",
    )


class BodyMemory(Protocol):
    """The memory budget of bodies. `buffer` raises Unavailable when it is exhausted."""

    def buffer(self, size: int) -> None: ...

    def release(self, size: int) -> None: ...


def arrived_body(exchange: HotExchange, limit: int, memory: BodyMemory) -> bytes | None:
    """Return the body if it has arrived; `None` if `read_body` has to wait for it.

    Claims memory, which the caller releases. Raises BodyTooLarge over `limit` bytes, and
    Unavailable when no memory is left.
    """
    whole = exchange.whole_body()
    if whole is None:
        return None
    size = len(whole)
    if size > limit:
        raise _too_large(exchange, limit)
    memory.buffer(size)
    return whole


async def read_body(exchange: HotExchange, limit: int, memory: BodyMemory) -> bytes:
    """Return the body; claim memory as pieces arrive. The caller releases it, also after an error.

    Raises BodyTooLarge over `limit` bytes, RequestTimeout when pieces arrive too slowly,
    Unavailable when no memory is left, and ClientGone when the client disconnects half-way.
    """
    if int(exchange.fields.get(b"content-length", 0)) > limit:
        raise _too_large(exchange, limit)
    pieces = _Pieces(exchange, limit, memory)
    more = pieces.add(await exchange.receive())
    while more:
        check_receive_deadline(exchange.scope)
        more = pieces.add(await exchange.receive())
    return pieces.whole()


class _Pieces:
    """A body that arrives in several pieces."""

    def __init__(self, exchange: HotExchange, limit: int, memory: BodyMemory) -> None:
        self._pieces: list[bytes] = []
        self._size = 0
        self._exchange = exchange
        self._limit = limit
        self._memory = memory

    def add(self, message: ReceiveMessage) -> bool:
        """Return whether more pieces follow."""
        if message["type"] != "http.request":
            raise ClientGone("the client closed the connection before the body's end")
        piece = message["body"]
        if self._size + len(piece) > self._limit:
            raise _too_large(self._exchange, self._limit)
        self._memory.buffer(len(piece))
        self._size += len(piece)
        self._pieces.append(piece)
        return message["more_body"]

    def whole(self) -> bytes:
        return b"".join(self._pieces)


def _too_large(exchange: HotExchange, limit: int) -> BodyTooLarge:
    length = exchange.fields.get(b"content-length")
    if length is None:
        return BodyTooLarge(f"the body is larger than the maximum of {limit} bytes")
    return BodyTooLarge(f"the body has {int(length)} bytes; the maximum is {limit}")
