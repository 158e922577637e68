"""One request of a connection, and the answer to it."""

from collections.abc import Callable, Mapping
from typing import Protocol

from litestar.types import HTTPScope, ReceiveMessage

from strowger_gateway.gateway.platform.eventloop.inline_task import Waiter, waiter_of
from strowger_gateway.gateway.platform.eventloop.turn import Turn
from strowger_gateway.gateway.server.http1.application import HotHandler
from strowger_gateway.gateway.server.http1.response_head import Headers, ResponseHeads

HIGH_WATER = 64 * 1024
"""Bytes of a body that wait to be read before reading from the socket stops."""

_CLOSE = (b"connection", b"close")
_CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"


class ExchangeConnection(Protocol):
    """What an exchange needs of its connection.

    write_paused: the client does not read. served: a request with a valid key had an answer.
    """

    turn: Turn
    heads: ResponseHeads
    write_paused: bool
    served: bool

    def write(self, data: bytes) -> None:
        """Send bytes of an answer at the end of this turn of the event loop."""
        ...

    async def drained(self, exchange: "Exchange") -> None:
        """Wait until the client reads, or is gone."""
        ...

    def ends_with(self, exchange: "Exchange") -> bool:
        """Return whether this request is the connection's last one."""
        ...

    def resume_reading(self) -> None:
        """Read again if a body was too far ahead of its reader."""
        ...

    def on_answered(self, exchange: "Exchange") -> None:
        """The last byte of an answer was sent."""
        ...

    def close(self) -> None:
        """Close without losing data."""
        ...


class Exchange:
    """A request as far as it has arrived, and its answer as far as it was sent.

    begun: its handler was started, or queued behind earlier requests of the connection.
    more_body: the request is not complete. late: the client takes too long to complete it.
    started, complete: the head, and the last byte, of the answer were sent.
    disconnected: the client is gone, or reads no answer any more.
    keep_alive: the connection carries another request afterwards.
    expects_continue: the client waits for 100 before it sends the body.
    """

    __slots__ = (
        "_chunked",
        "_connection",
        "_end_read",
        "_gone",
        "_pieces",
        "_waiter",
        "begun",
        "cancel",
        "complete",
        "disconnected",
        "expects_continue",
        "fields",
        "hot",
        "keep_alive",
        "late",
        "more_body",
        "scope",
        "size",
        "started",
        "turn",
    )

    def __init__(
        self,
        connection: ExchangeConnection,
        scope: HTTPScope,
        fields: Mapping[bytes, bytes],
        hot: HotHandler | None,
        *,
        keep_alive: bool,
        expects: bool,
    ) -> None:
        self.scope = scope
        self.fields = fields
        self.hot = hot
        self.turn = connection.turn
        self.keep_alive = keep_alive
        self.expects_continue = expects
        self.begun = self.late = self.disconnected = self.started = self.complete = False
        self.more_body = True
        self.size = 0
        self.cancel: Callable[[], object] | None = None
        self._connection = connection
        self._pieces: list[bytes] = []
        self._waiter: Waiter | None = None
        self._gone: Callable[[], None] | None = None
        self._chunked = self._end_read = False

    @property
    def ahead(self) -> bool:
        """Whether more of the body than HIGH_WATER waits for its reader, and more will come."""
        return self.size > HIGH_WATER and self.more_body and not self.complete

    # The request, from the connection

    def feed(self, piece: bytes) -> None:
        """Add a piece of the body."""
        self._pieces.append(piece)
        self.size += len(piece)
        if self._waiter is not None:
            self._waiter.wake()

    def finish(self) -> None:
        """The body is complete."""
        self.more_body = False
        if self._waiter is not None:
            self._waiter.wake()

    def give_up(self) -> None:
        """The body arrives too slowly: a waiting `receive` returns now."""
        self.late = True
        if self._waiter is not None:
            self._waiter.wake()

    def disconnect(self) -> None:
        """The client is gone."""
        if self.complete or self.disconnected:
            return
        self.disconnected = True
        if self._waiter is not None:
            self._waiter.wake()
        if self._gone is not None:
            self._gone()

    # The request, for its handler

    def whole_body(self) -> bytes | None:
        """Return the body if it has arrived whole; `None` if `receive` has to be used."""
        if self.more_body or self.disconnected:
            return None
        pieces = self._pieces
        body = pieces[0] if len(pieces) == 1 else b"".join(pieces)
        self._pieces, self._end_read = [], True
        self._connection.resume_reading()
        return body

    async def receive(self) -> ReceiveMessage:
        """ASGI's `receive`: the next piece of the body, or that the client is gone."""
        while not self._has_news():
            if self.more_body:
                self._request_body()
            self._waiter = waiter_of(self.turn)
            try:
                await self._waiter
            finally:
                self._waiter = None
        if self.disconnected or self.complete:
            return {"type": "http.disconnect"}
        body, self._pieces, self.size = b"".join(self._pieces), [], 0
        self._end_read = not self.more_body
        self.expects_continue = False  # it did not wait
        self._connection.resume_reading()
        return {"type": "http.request", "body": body, "more_body": self.more_body}

    def on_gone(self, call: Callable[[], None] | None) -> None:
        """Call `call` once when the client disconnects, or at once if it already has."""
        self._gone = call
        if call is not None and self.disconnected:
            call()

    # The answer

    async def whole(self, status: int, headers: Headers, body: bytes) -> None:
        """Send a complete answer; `headers` has its content-length."""
        if not self.disconnected:
            self.started = True
            head = self._head(status, headers, b"")
            self._connection.write(head if self.scope["method"] == "HEAD" else head + body)
            self._complete()

    async def start(self, status: int, headers: Headers) -> None:
        """Send the head of an answer whose body follows in pieces."""
        self.begin_answer(status, headers)

    async def put(self, data: bytes, *, more: bool) -> None:
        """Send a piece of the body. Waits while the client does not read."""
        if self._connection.write_paused:
            await self._connection.drained(self)
        self.send_piece(data, more=more)

    def put_now(self, data: bytes) -> bool:
        """See HotExchange."""
        connection = self._connection
        if connection.write_paused:
            return False
        if self._chunked and not self.disconnected and not self.complete and data:
            connection.write(b"%x\r\n%b\r\n" % (len(data), data))  # `send_piece` inlined
        else:
            self.send_piece(data, more=True)
        return True

    def begin_answer(self, status: int, headers: Headers, *, sized: bool = False) -> None:
        """Send the head. sized: `headers` has a content-length."""
        if self.disconnected:
            return
        last = b""
        if not sized and status not in (204, 304):
            if self.scope["http_version"] == "1.1":
                self._chunked = self.scope["method"] != "HEAD"
                last = b"transfer-encoding: chunked"
            else:
                self.keep_alive = False
        self.started = True
        self._connection.write(self._head(status, headers, last))

    def send_piece(self, data: bytes, *, more: bool) -> None:
        """Send a piece of the body, in the framing that the head announced."""
        if self.disconnected or self.complete:
            return
        if self.scope["method"] == "HEAD":
            data = b""
        elif self._chunked:
            if data:
                data = b"%x\r\n%b\r\n" % (len(data), data)
            if not more:
                data += b"0\r\n\r\n"
        if data:
            self._connection.write(data)
        if not more:
            self._complete()

    def abandon(self) -> None:
        """Close the connection in the middle of the answer: the client sees that it is cut."""
        self.keep_alive = False
        self._connection.close()

    def fail(self) -> None:
        """Its handler ended without an answer: cut the connection."""
        if not (self.complete or self.disconnected):
            self.abandon()

    def _head(self, status: int, headers: Headers, last: bytes) -> bytes:
        if self.expects_continue and self.more_body:
            # The client may send the body or leave it out: what comes next has no certain meaning.
            # https://www.rfc-editor.org/rfc/rfc9110#section-10.1.1
            self.expects_continue = self.keep_alive = False
        if _CLOSE in headers:
            self.keep_alive = False
        elif not self.keep_alive or self._connection.ends_with(self):
            self.keep_alive = False
            headers = [*headers, _CLOSE]
        if status < 300 and self.hot is not None:
            self._connection.served = True
        return self._connection.heads.render(status, headers, last)

    def _complete(self) -> None:
        self.complete = True
        self._gone = None
        if self._waiter is not None:
            self._waiter.wake()
        self._connection.on_answered(self)

    def _has_news(self) -> bool:
        """Whether `receive` can return: a piece, the body's end, or the client's."""
        if self.disconnected or self.complete or self._pieces:
            return True
        return self.late if self.more_body else not self._end_read

    def _request_body(self) -> None:
        if self.expects_continue:
            self.expects_continue = False
            self._connection.write(_CONTINUE)
