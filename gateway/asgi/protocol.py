"""uvicorn's HTTP/1.1 protocol, extended for a gateway's clients: see GatewayHttp."""

import asyncio
from typing import Literal, NamedTuple, cast

import httptools
from litestar.types import HTTPScope
from uvicorn._types import ASGI3Application
from uvicorn.protocols.http.httptools_impl import RequestResponseCycle

from gateway.asgi.client_timeouts import LEAST_RATE, set_receive_deadline, unread_bytes
from gateway.asgi.host import authority_of, well_formed
from gateway.asgi.write_coalescing import CoalescingHttp, LingeringTransport

MOST_HEAD_BYTES = 64 * 1024
"""Limit for the head of a request as far as it arrives in pieces, and for everything that is not
body data: trailers, chunk extensions, empty lines. Without it, only memory would be the limit."""

MOST_WAITING = 4
"""Pipelined requests per connection before reading from it stops."""

LINGER_S = 30.0
"""Seconds for a client to finish sending after it was answered; nginx's lingering_time."""

HALF_CLOSED_S = 0.05
"""Seconds for an answer to a client that has closed its side of the connection."""

_FRAMING = 16
"""Bytes allowed per byte of a body: the framing of one-byte chunks takes five or six."""

_ALL = 1 << 40
_TWO_HOSTS = b"\0"
_OFFER = frozenset({b"upgrade", b"http2-settings"})
_TOO_LONG = (
    b"HTTP/1.1 431 Request Header Fields Too Large\r\n"
    b"connection: close\r\ncontent-length: 0\r\n\r\n"
)


def _bad_request(why: str) -> bytes:
    return (
        b"HTTP/1.1 400 Bad Request\r\ncontent-type: text/plain; charset=utf-8\r\n"
        b"connection: close\r\ncontent-length: %d\r\n\r\n%b" % (len(why), why.encode("ascii"))
    )


_TOO_LATE = b"HTTP/1.1 408 Request Timeout\r\nconnection: close\r\ncontent-length: 0\r\n\r\n"


class _Wait(NamedTuple):
    """What the client has to do next: finish the head after the `last` started request, or that
    request's body, read its answer, or close the connection after that."""

    last: RequestResponseCycle | None
    owes: Literal["head", "body", "reading", "leaving"]


class GatewayHttp(CoalescingHttp):
    """uvicorn's protocol, with these differences.

    An offer of HTTP/2 (`upgrade: h2c`), which Java clients send with every cleartext request, is
    ignored, as https://www.rfc-editor.org/rfc/rfc9110#section-7.8 allows; the parser would lose
    the body (https://github.com/Kludex/uvicorn/issues/2722). Heads, trailers and chunk extensions
    have a limit, and trailers never become headers. The target and the Host must be valid.
    A disconnect is noticed even if the client has already sent its next request. A slow client is
    cut off; otherwise it would hold its connection and its request's slot without limit. A client
    that is answered before it has sent everything receives its answer. A message that cannot be
    parsed never disturbs the answers to earlier ones.
    """

    def __init__(self, *args: object, **kwargs: object) -> None:
        super().__init__(*args, **kwargs)  # pyright: ignore[reportArgumentType]  uvicorn's own
        self._running: RequestResponseCycle | None = None
        self._seen: _Wait | None = None
        self._since = 0.0
        self._body_bytes = self._unread = 0
        # Bytes received since the last complete head or message, minus the credit of body bytes.
        self._silent = self._credit = 0
        self._in_body = False
        self._leaving = self._deaf = self._ended = False
        self._host: bytes | None = None
        self._fault = ""

    def data_received(self, data: bytes) -> None:
        if self._leaving or self._deaf:
            return
        self._unset_keepalive_if_required()
        self._credit = 0
        try:
            self.parser.feed_data(data)
        except httptools.HttpParserUpgrade as exc:
            if self._should_upgrade():
                self.handle_websocket_upgrade()
                return
            self._discard_body(data[cast(int, exc.args[0]) :])
            return
        except httptools.HttpParserError:
            self._refuse(_bad_request(self._fault or "Invalid HTTP request received."))
            return
        self._silent = max(self._silent + len(data) - self._credit, 0)
        if self._silent > MOST_HEAD_BYTES:
            self._refuse(_TOO_LONG)

    def eof_received(self) -> bool:  # pyright: ignore[reportIncompatibleMethodOverride]  as asyncio's own
        """The client sends nothing more: it has gone, or it waits for its answer.

        The two cannot be distinguished. A request that arrived whole keeps its connection for
        HALF_CLOSED_S, which is enough for answers that the gateway gives by itself.
        """
        self._ended = True
        last = cast("RequestResponseCycle | None", self.cycle)
        if last is None or last.more_body or self._leaving or last.disconnected:
            return False
        cast(LingeringTransport, self.transport).flush()
        if last.response_complete:
            return False
        last.keep_alive = False
        self.loop.call_later(HALF_CLOSED_S, self.transport.close)
        return True

    # The parser's callbacks. The first two replace uvicorn's, which let trailers become headers.

    def on_header(self, name: bytes, value: bytes) -> None:
        if self._in_body:
            return
        name = name.lower()
        if name == b"host":
            self._host = value if self._host is None else _TWO_HOSTS
        elif name == b"expect" and value.lower() == b"100-continue":
            self.expect_100_continue = True
        self.headers.append((name, value))

    def on_body(self, body: bytes) -> None:
        self._credit += _FRAMING * len(body)
        self._body_bytes += len(body)
        super().on_body(body)

    def check_deadline(self, at: float, limit_s: float) -> None:
        """Check that heads finish in time, bodies keep their rate, and answers are read."""
        turn = self._wait()
        if turn is None or turn != self._seen or self._makes_progress(turn, limit_s):
            self._seen, self._since, self._body_bytes = turn, at, 0
            self._unread = unread_bytes(self.transport) if turn and turn.owes == "reading" else 0
        elif at - self._since >= (min(limit_s, LINGER_S) if turn.owes == "leaving" else limit_s):
            self._give_up(turn, limit_s)

    def wrapped(self, transport: asyncio.Transport) -> LingeringTransport:
        return LingeringTransport(transport, self.loop, self._may_linger)

    def on_headers_complete(self) -> None:
        host, self._host = self._host, None
        if self._rejects_body():
            return
        if host is None or not well_formed(host) or self.url[:1] != b"/":
            self._check_target(host)
        super().on_headers_complete()
        self._credit = _ALL
        self._in_body = True
        if 0 < len(self.pipeline) <= MOST_WAITING:
            self.flow.resume_reading()

    def on_message_complete(self) -> None:
        if self._rejects_body():
            return
        super().on_message_complete()
        self._credit = _ALL
        self._in_body = False
        self.cycle.more_body = False  # uvicorn leaves it set if the answer was sent first

    def connection_lost(self, exc: Exception | None) -> None:
        running = self._running
        if running is not None and not running.response_complete:
            running.disconnected = True
            running.message_event.set()
        super().connection_lost(exc)
        cast(LingeringTransport, self.transport).release()

    def _start_asgi_task(self, cycle: RequestResponseCycle, app: ASGI3Application) -> None:
        self._running = cycle
        super()._start_asgi_task(cycle, app)

    def _may_linger(self) -> bool:
        """Return whether the client has more to send; if so, its data is discarded from then on."""
        last = cast("RequestResponseCycle | None", self.cycle)
        unfinished = self._deaf or self._head_started() or (last is not None and last.more_body)
        self._leaving = unfinished and not self._ended
        if self._leaving:
            self.flow.resume_reading()
        return self._leaving

    def _head_started(self) -> bool:
        return self._silent > 0 and not self._in_body

    def _wait(self) -> _Wait | None:
        """Return `None` if the gateway is next, or the connection is idle between requests."""
        last = cast("RequestResponseCycle | None", self.cycle)
        if self._leaving or (last is not None and last.response_complete and last.more_body):
            return _Wait(last=last, owes="leaving")
        closing = self.transport.is_closing()
        if self.flow.write_paused or (closing and self.transport.get_write_buffer_size()):
            return _Wait(last=last, owes="reading")
        if closing:
            return None
        if last is None or (last.response_complete and self._head_started()):
            return _Wait(last=last, owes="head")
        ours = not last.more_body or self.pipeline or self.flow.read_paused
        return None if last.response_complete or ours else _Wait(last=last, owes="body")

    def _makes_progress(self, turn: _Wait, limit_s: float) -> bool:
        """Return whether the client made enough progress for another interval."""
        if turn.owes == "body":
            return self._body_bytes >= LEAST_RATE * limit_s
        return turn.owes == "reading" and unread_bytes(self.transport) < self._unread

    def _give_up(self, turn: _Wait, limit_s: float) -> None:
        if turn.owes in ("reading", "leaving"):
            self.transport.abort()
        elif turn.owes == "body" and turn.last is not None:
            set_receive_deadline(cast(HTTPScope, turn.last.scope), limit_s)
            turn.last.message_event.set()
        else:
            if self._head_started():
                self.transport.write(_TOO_LATE)
            self.transport.close()

    def _check_target(self, host: bytes | None) -> None:
        """Raise ValueError, and store the reason, if HTTP/1.1 forbids the target or the Host."""
        if host is None and self.parser.get_http_version() == "1.1":
            self._fault = "The Host header is missing; HTTP/1.1 requires it."
        elif host is _TWO_HOSTS:
            self._fault = "There is more than one Host header."
        elif host is not None and not well_formed(host):
            self._fault = "The Host header is not a valid host and port."
        elif (absolute := authority_of(self.url)) is not None:
            authority, self.url = absolute
            if not authority or not well_formed(authority):
                self._fault = "The request target's host is not a valid host and port."
            others = [field for field in self.headers if field[0] != b"host"]
            self.headers[:] = [(b"host", authority), *others]
        elif self.url[:1] != b"/" and (self.url != b"*" or self.parser.get_method() != b"OPTIONS"):
            self._fault = "The request target must be a path that begins with a slash."
        if self._fault:
            raise ValueError(self._fault)

    def _refuse(self, answer: bytes) -> None:
        """Answer a message that cannot be parsed, after the answers before it, and close."""
        running, last = self._running, cast("RequestResponseCycle | None", self.cycle)
        if running is None or running.response_complete:
            if not self._in_body:
                self.transport.write(answer)
            self._deaf = True
            self.transport.close()
        elif self._in_body and last is running:
            if not running.response_started:
                self.transport.write(answer)
            running.disconnected = self._deaf = True
            running.message_event.set()
            self.transport.close()
        else:
            self._deaf = True
            if self._in_body:
                self.pipeline.popleft()
            (self.pipeline[0][0] if self.pipeline else running).keep_alive = False

    def _rejects_body(self) -> bool:
        """Return whether the head just read offers a protocol that we do not support."""
        return self.parser.should_upgrade() and not self._should_upgrade()

    def _discard_body(self, rest: bytes) -> None:
        """Parse the same head again without the offer, and what followed it.

        The parser treats what follows such a head as another protocol, so a new parser replaces it.
        """
        method, version = self.parser.get_method(), self.parser.get_http_version()
        if method == b"CONNECT":
            self._refuse(_bad_request("This server is not a proxy."))
            return
        lines = [b"%b %b HTTP/%b" % (method, self.url, version.encode())]
        lines += [b"%b: %b" % field for field in self.headers if field[0] not in _OFFER]
        self.parser = httptools.HttpRequestParser(self)
        self.parser.set_dangerous_leniencies(lenient_data_after_close=True)
        self.data_received(b"\r\n".join(lines) + b"\r\n\r\n" + rest)
