"""The two ends of a hot request: the gateway's own server, or an ASGI server that mounts it."""

from collections.abc import Callable, Generator, Mapping
from typing import TYPE_CHECKING, Protocol, cast

from litestar.types import HTTPScope, Message, Receive, ReceiveMessage, Send

from strowger_gateway.gateway.platform.eventloop.turn import Turn
from strowger_gateway.gateway.server.asgi.cors import Headers
from strowger_gateway.schemas.errors import GatewayError

if TYPE_CHECKING:
    import asyncio

_Waiting = Generator["asyncio.Future[object]", None, Message]


class ClientGone(GatewayError):
    """The client disconnected. It receives no answer; the status is for the log alone."""

    status = 499
    code = "client_closed_request"


class HotExchange(Protocol):
    """A request and its answer, as an endpoint sees them."""

    scope: HTTPScope
    fields: Mapping[bytes, bytes]
    """The headers; of several with one name, the last."""

    @property
    def turn(self) -> Turn | None:
        """The batch of the gateway's own server; `None` under another server."""
        ...

    def whole_body(self) -> bytes | None:
        """Return the body if it has arrived whole; `None` if `receive` has to be used."""
        ...

    async def receive(self) -> ReceiveMessage:
        """Return the next piece of the body, or `http.disconnect`."""
        ...

    def on_gone(self, call: Callable[[], None] | None) -> None:
        """From now on, call `call` once when the client disconnects; `None` stops that.

        The body must have been read. If the client is gone already, `call` is called at once.
        """
        ...

    async def whole(self, status: int, headers: Headers, body: bytes) -> None:
        """Send a complete answer; `headers` has its content-length."""
        ...

    async def start(self, status: int, headers: Headers) -> None:
        """Send the head of an answer whose body follows in pieces."""
        ...

    async def put(self, data: bytes, *, more: bool) -> None:
        """Send a piece of the body. Waits while the client does not read."""
        ...

    def put_now(self, data: bytes) -> bool:
        """Send a piece that is not the last; false, and nothing is sent, if it had to wait."""
        ...


class AsgiExchange:
    """See HotExchange: under another ASGI server.

    `receive` is not awaited by a task of its own, which would cost more than the rest of the
    endpoint, but stepped by hand: it runs up to the future that it waits for, and continues in
    that future's callback. https://peps.python.org/pep-0492/#await-expression
    """

    def __init__(self, scope: HTTPScope, receive: Receive, send: Send) -> None:
        self.scope = scope
        self.fields = dict(scope["headers"])
        self.receive = receive
        self._send = send
        self._gone: Callable[[], None] | None = None
        self._future: asyncio.Future[object] | None = None
        self._waiting: _Waiting | None = None

    @property
    def turn(self) -> Turn | None:
        """See HotExchange."""
        return None

    def whole_body(self) -> bytes | None:
        """See HotExchange."""
        return None

    def on_gone(self, call: Callable[[], None] | None) -> None:
        """See HotExchange."""
        self._gone = call
        if call is not None:
            self._waiting = self._listen()
            self._advance(None)
            return
        if self._future is not None:
            self._future.remove_done_callback(self._advance)
            self._future = None
        if self._waiting is not None:
            self._waiting.close()
            self._waiting = None

    async def whole(self, status: int, headers: Headers, body: bytes) -> None:
        """See HotExchange."""
        await self.start(status, headers)
        await self.put(body, more=False)

    async def start(self, status: int, headers: Headers) -> None:
        """See HotExchange."""
        start = {"type": "http.response.start", "status": status, "headers": headers}
        await self._send(cast(Message, start))

    async def put(self, data: bytes, *, more: bool) -> None:
        """See HotExchange."""
        body = {"type": "http.response.body", "body": data, "more_body": more}
        await self._send(cast(Message, body))

    def put_now(self, data: bytes) -> bool:
        """See HotExchange."""
        return False

    def _listen(self) -> _Waiting:
        return cast(_Waiting, self.receive().__await__())

    def _advance(self, done: "asyncio.Future[object] | None") -> None:
        """Step `receive` until it waits again or reports the disconnect."""
        while self._gone is not None and self._waiting is not None:
            try:
                self._future = next(self._waiting)
            except StopIteration as end:
                if end.value["type"] == "http.disconnect":
                    self._future = None
                    self._gone()
                    return
                self._waiting = self._listen()
            else:
                self._future.add_done_callback(self._advance)
                return
