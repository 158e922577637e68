"""uvicorn's HTTP/1.1 protocol, and what a gateway's clients need beside: see GatewayHttp."""

from typing import cast

import httptools
from uvicorn._types import ASGI3Application
from uvicorn.protocols.http.httptools_impl import RequestResponseCycle

from gateway.asgi.coalescing import CoalescingHttp

MOST_HEAD_BYTES = 64 * 1024
"""Of a request's head, as far as it comes in pieces: without a bound, memory would be it."""

MOST_WAITING = 4
"""Requests that may wait on a connection for the one before them, and it is still read."""

_OFFER = frozenset({b"upgrade", b"http2-settings"})
_TOO_LONG = (
    b"HTTP/1.1 431 Request Header Fields Too Large\r\n"
    b"connection: close\r\ncontent-length: 0\r\n\r\n"
)


class GatewayHttp(CoalescingHttp):
    """Three differences.

    An offer of HTTP/2 (`upgrade: h2c`), which Java's clients make with every request in the clear,
    is read past as https://www.rfc-editor.org/rfc/rfc9110#section-7.8 allows; the parser would lose
    the body (https://github.com/Kludex/uvicorn/issues/2722). A head has a limit. And a client that
    leaves is noticed although it has sent its next request already.
    """

    def __init__(self, *args: object, **kwargs: object) -> None:
        super().__init__(*args, **kwargs)  # pyright: ignore[reportArgumentType]  uvicorn's own
        self._head_bytes = 0
        self._running: RequestResponseCycle | None = None

    def data_received(self, data: bytes) -> None:
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
        if self.cycle is not before or (before is not None and not before.response_complete):
            self._head_bytes = 0
            return
        self._head_bytes += len(data)
        if self._head_bytes > MOST_HEAD_BYTES:
            self.transport.write(_TOO_LONG)
            self.transport.close()

    def on_headers_complete(self) -> None:
        if self._declines():
            return
        super().on_headers_complete()
        if 0 < len(self.pipeline) <= MOST_WAITING:
            self.flow.resume_reading()

    def on_message_complete(self) -> None:
        if not self._declines():
            super().on_message_complete()

    def connection_lost(self, exc: Exception | None) -> None:
        running = self._running
        if running is not None and not running.response_complete:
            running.disconnected = True
            running.message_event.set()
        super().connection_lost(exc)

    def _start_asgi_task(self, cycle: RequestResponseCycle, app: ASGI3Application) -> None:
        self._running = cycle
        super()._start_asgi_task(cycle, app)

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
