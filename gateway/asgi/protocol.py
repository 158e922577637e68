"""uvicorn's HTTP/1.1 protocol, and what a gateway's clients need beside: see GatewayHttp."""

import asyncio
from typing import Literal, NamedTuple, cast

import httptools
from litestar.types import HTTPScope
from uvicorn._types import ASGI3Application
from uvicorn.protocols.http.httptools_impl import RequestResponseCycle

from gateway.asgi.coalescing import CoalescingHttp
from gateway.asgi.lingering import Lingering
from gateway.asgi.patience import LEAST_RATE, call_late, unread

MOST_HEAD_BYTES = 64 * 1024
"""Of a request's head, as far as it comes in pieces: without a bound, memory would be it."""

MOST_WAITING = 4
"""Requests that may wait on a connection for the one before them, and it is still read."""

LINGER_S = 30.0
"""For a client to end what it sends after it has been answered; nginx's lingering_time."""

_OFFER = frozenset({b"upgrade", b"http2-settings"})
_TOO_LONG = (
    b"HTTP/1.1 431 Request Header Fields Too Large\r\n"
    b"connection: close\r\ncontent-length: 0\r\n\r\n"
)


_TOO_LATE = b"HTTP/1.1 408 Request Timeout\r\nconnection: close\r\ncontent-length: 0\r\n\r\n"


class _Turn(NamedTuple):
    """What is the client's to do: finish the head after the `last` request that has begun, or that
    request's body, take what it is being answered, or leave after that."""

    last: RequestResponseCycle | None
    owes: Literal["head", "body", "reading", "leaving"]


class GatewayHttp(CoalescingHttp):
    """Five differences.

    An offer of HTTP/2 (`upgrade: h2c`), which Java's clients make with every request in the clear,
    is read past as https://www.rfc-editor.org/rfc/rfc9110#section-7.8 allows; the parser would lose
    the body (https://github.com/Kludex/uvicorn/issues/2722). A head has a limit. A client that
    leaves is noticed although it has sent its next request already. One that is slow is cut
    off, which otherwise keeps its connection and its request's place for as long as it likes. And
    one that is answered before it has said all hears the answer.
    """

    def __init__(self, *args: object, **kwargs: object) -> None:
        super().__init__(*args, **kwargs)  # pyright: ignore[reportArgumentType]  uvicorn's own
        self._head_bytes = 0
        self._running: RequestResponseCycle | None = None
        self._seen: _Turn | None = None
        self._since = 0.0
        self._body_bytes = self._unread = 0
        self._leaving = self._unheard = False

    def data_received(self, data: bytes) -> None:
        if self._leaving:
            return
        before = cast("RequestResponseCycle | None", self.cycle)
        self._unset_keepalive_if_required()
        try:
            self.parser.feed_data(data)
        except httptools.HttpParserUpgrade as exc:
            if self._should_upgrade():
                self.handle_websocket_upgrade()
                return
            self._go_on_without(data[cast(int, exc.args[0]) :])
        except httptools.HttpParserError:
            self.send_400_response("Invalid HTTP request received.")
            return
        if self.cycle is not before:
            self._head_bytes = 0
        elif before is not None and (before.more_body or not before.response_complete):
            self._head_bytes = 0
            self._body_bytes += len(data)
        elif self._unheard:
            self._unheard = False
        else:
            self._head_bytes += len(data)
            if self._head_bytes > MOST_HEAD_BYTES:
                self.transport.write(_TOO_LONG)
                self.transport.close()

    def look(self, at: float, limit_s: float) -> None:
        """A head is whole within the limit, a body keeps its rate, an answer is taken on."""
        turn = self._turn()
        if turn is None or turn != self._seen or self._goes_on(turn, limit_s):
            self._seen, self._since, self._body_bytes = turn, at, 0
            self._unread = unread(self.transport) if turn and turn.owes == "reading" else 0
        elif at - self._since >= (min(limit_s, LINGER_S) if turn.owes == "leaving" else limit_s):
            self._give_up(turn, limit_s)

    def wrapped(self, transport: asyncio.Transport) -> Lingering:
        return Lingering(transport, self.loop, self._lingers)

    def on_headers_complete(self) -> None:
        if self._declines():
            return
        super().on_headers_complete()
        if 0 < len(self.pipeline) <= MOST_WAITING:
            self.flow.resume_reading()

    def on_message_complete(self) -> None:
        if self._declines():
            return
        super().on_message_complete()
        if self.cycle.more_body:  # so uvicorn leaves it where the answer came before this end
            self.cycle.more_body = False
            self._unheard = True

    def connection_lost(self, exc: Exception | None) -> None:
        running = self._running
        if running is not None and not running.response_complete:
            running.disconnected = True
            running.message_event.set()
        super().connection_lost(exc)
        cast(Lingering, self.transport).let_go()

    def _start_asgi_task(self, cycle: RequestResponseCycle, app: ASGI3Application) -> None:
        self._running = cycle
        super()._start_asgi_task(cycle, app)

    def _lingers(self) -> bool:
        """Whether the client has more to send; from then on it is read and thrown away."""
        last = cast("RequestResponseCycle | None", self.cycle)
        self._leaving = bool(self._head_bytes) or (last is not None and last.more_body)
        if self._leaving:
            self.flow.resume_reading()
        return self._leaving

    def _turn(self) -> _Turn | None:
        """`None` where it is not the client's, or it is free to be silent between requests."""
        last = cast("RequestResponseCycle | None", self.cycle)
        if self._leaving or (last is not None and last.response_complete and last.more_body):
            return _Turn(last=last, owes="leaving")
        closing = self.transport.is_closing()
        if self.flow.write_paused or (closing and self.transport.get_write_buffer_size()):
            return _Turn(last=last, owes="reading")
        if closing:
            return None
        if last is None or (last.response_complete and self._head_bytes):
            return _Turn(last=last, owes="head")
        ours = not last.more_body or self.pipeline or self.flow.read_paused
        return None if last.response_complete or ours else _Turn(last=last, owes="body")

    def _goes_on(self, turn: _Turn, limit_s: float) -> bool:
        """Whether enough has happened for another such while."""
        if turn.owes == "body":
            return self._body_bytes >= LEAST_RATE * limit_s
        return turn.owes == "reading" and unread(self.transport) < self._unread

    def _give_up(self, turn: _Turn, limit_s: float) -> None:
        if turn.owes in ("reading", "leaving"):
            self.transport.abort()
        elif turn.owes == "body" and turn.last is not None:
            call_late(cast(HTTPScope, turn.last.scope), limit_s)
            turn.last.message_event.set()
        else:
            if self._head_bytes:
                self.transport.write(_TOO_LATE)
            self.transport.close()

    def _declines(self) -> bool:
        """Whether the head that was just read offers what we do not speak."""
        return self.parser.should_upgrade() and not self._should_upgrade()

    def _go_on_without(self, rest: bytes) -> None:
        """Read the same head once more, without the offer, and what has come behind it.

        The parser takes what follows such a head for another protocol, so it is replaced.
        """
        method, version = self.parser.get_method(), self.parser.get_http_version()
        if method == b"CONNECT":
            self.send_400_response("This is no proxy.")
            return
        lines = [b"%b %b HTTP/%b" % (method, self.url, version.encode())]
        lines += [b"%b: %b" % field for field in self.headers if field[0] not in _OFFER]
        self.parser = httptools.HttpRequestParser(self)
        self.parser.set_dangerous_leniencies(lenient_data_after_close=True)
        self.data_received(b"\r\n".join(lines) + b"\r\n\r\n" + rest)
