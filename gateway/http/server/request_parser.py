"""Read requests from the bytes of a connection, within the limits that protect the gateway."""

from typing import Protocol, cast
from urllib.parse import unquote

import httptools

from gateway.http.server.target import authority_of, well_formed

MOST_HEAD_BYTES = 64 * 1024
"""Limit for the head of a request as far as it arrives in pieces, and for everything that is not
body data: trailers, chunk extensions, empty lines. Without it, only memory would be the limit."""

_FRAMING = 16
"""Bytes allowed per byte of a body: the framing of one-byte chunks takes five or six."""

_ALL = 1 << 40
_TWO_HOSTS = b"\0"
_OFFER = frozenset({b"upgrade", b"http2-settings"})
_TOO_LONG = (
    b"HTTP/1.1 431 Request Header Fields Too Large\r\n"
    b"connection: close\r\ncontent-length: 0\r\n\r\n"
)


class BadRequest(Exception):
    """The bytes are not a request. answer: whole, as bytes; the connection is closed after it."""

    def __init__(self, answer: bytes) -> None:
        super().__init__()
        self.answer = answer


class RequestSink(Protocol):
    """Receives what was read."""

    def on_head(self) -> None:
        """A head is complete: `target`, `headers`, `length`, `expects_continue` are its own."""
        ...

    def on_body(self, body: bytes) -> None: ...

    def on_message_complete(self) -> None: ...


class RequestParser:
    """httptools' parser, with what it leaves to its users.

    An offer of HTTP/2 (`upgrade: h2c`), which Java clients send with every cleartext request, is
    ignored, as https://www.rfc-editor.org/rfc/rfc9110#section-7.8 allows; the parser would lose
    the body. Heads, trailers and chunk extensions have a limit, and trailers never become headers.
    The target and the Host must be valid.

    in_body: a head is complete, its message is not.
    headers: lower-case names. length: the content-length as sent, or b"".
    """

    def __init__(self, sink: RequestSink) -> None:
        self.target = b""
        self.headers: list[tuple[bytes, bytes]] = []
        self.length = b""
        self.expects_continue = False
        self.in_body = False
        self._sink = sink
        self._parser = self._fresh()
        self._host: bytes | None = None
        self._fault = ""
        # Bytes received since the last complete head or message, minus the credit of body bytes.
        self._silent = self._credit = 0

    @property
    def head_started(self) -> bool:
        """Whether a head has begun to arrive and is not complete."""
        return self._silent > 0 and not self.in_body

    @property
    def version(self) -> str:
        return self._parser.get_http_version()

    @property
    def method(self) -> str:
        return self._parser.get_method().decode("ascii")

    def should_keep_alive(self) -> bool:
        """Whether the client lets the connection carry another request."""
        return self._parser.should_keep_alive()

    def close(self) -> None:
        """Break the reference cycle through the parser's callbacks."""
        del self._parser

    def feed(self, data: bytes) -> None:
        """Read. Raises BadRequest; nothing may be fed after that."""
        self._credit = 0
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserUpgrade as exc:
            self._ignore_offer(data[cast(int, exc.args[0]) :])
            return
        except httptools.HttpParserError as exc:
            raise bad_request(self._fault or "Invalid HTTP request received.") from exc
        self._silent = max(self._silent + len(data) - self._credit, 0)
        if self._silent > MOST_HEAD_BYTES:
            raise BadRequest(_TOO_LONG)

    # Called by httptools

    def on_message_begin(self) -> None:
        self.target = self.length = b""
        self.headers = []
        self.expects_continue = False

    def on_url(self, url: bytes) -> None:
        self.target = self.target + url if self.target else url

    def on_header(self, name: bytes, value: bytes) -> None:
        if self.in_body:
            return  # a trailer
        name = name.lower()
        if name == b"host":
            self._host = value if self._host is None else _TWO_HOSTS
        elif name == b"content-length":
            self.length = value
        elif name == b"expect" and value.lower() == b"100-continue":
            self.expects_continue = True
        self.headers.append((name, value))

    def on_headers_complete(self) -> None:
        host, self._host = self._host, None
        if self._parser.should_upgrade():
            return  # `_ignore_offer` reads this head again
        if host is None or not well_formed(host) or self.target[:1] != b"/":
            self._check_target(host)
        self._credit = _ALL
        self.in_body = True
        self._sink.on_head()

    def on_body(self, body: bytes) -> None:
        if self.in_body:
            self._credit += _FRAMING * len(body)
            self._sink.on_body(body)

    def on_message_complete(self) -> None:
        if self.in_body:
            self._credit = _ALL
            self.in_body = False
            self._sink.on_message_complete()

    def _fresh(self) -> httptools.HttpRequestParser:
        parser = httptools.HttpRequestParser(self)
        # Without it, the parser fails for bytes after a request with `connection: close`, and the
        # answer to that request would be lost.
        parser.set_dangerous_leniencies(lenient_data_after_close=True)
        return parser

    def _check_target(self, host: bytes | None) -> None:
        """Raise ValueError, and store the reason, if HTTP/1.1 forbids the target or the Host."""
        if host is None and self._parser.get_http_version() == "1.1":
            self._fault = "The Host header is missing; HTTP/1.1 requires it."
        elif host is _TWO_HOSTS:
            self._fault = "There is more than one Host header."
        elif host is not None and not well_formed(host):
            self._fault = "The Host header is not a valid host and port."
        elif (absolute := authority_of(self.target)) is not None:
            authority, self.target = absolute
            if not authority or not well_formed(authority):
                self._fault = "The request target's host is not a valid host and port."
            others = [field for field in self.headers if field[0] != b"host"]
            self.headers[:] = [(b"host", authority), *others]
        elif self.target[:1] != b"/" and (
            self.target != b"*" or self._parser.get_method() != b"OPTIONS"
        ):
            self._fault = "The request target must be a path that begins with a slash."
        if self._fault:
            raise ValueError(self._fault)

    def _ignore_offer(self, rest: bytes) -> None:
        """Parse the same head again without the offer of another protocol, and what followed it.

        The parser treats what follows such a head as the other protocol, so a new one replaces it.
        """
        method, version = self._parser.get_method(), self._parser.get_http_version()
        if method == b"CONNECT":
            raise bad_request("This server is not a proxy.")
        lines = [b"%b %b HTTP/%b" % (method, self.target, version.encode())]
        lines += [b"%b: %b" % field for field in self.headers if field[0] not in _OFFER]
        self._parser = self._fresh()
        self.feed(b"\r\n".join(lines) + b"\r\n\r\n" + rest)


def bad_request(why: str) -> BadRequest:
    """Return the error for a client that does not speak HTTP/1.1."""
    return BadRequest(
        b"HTTP/1.1 400 Bad Request\r\ncontent-type: text/plain; charset=utf-8\r\n"
        b"connection: close\r\ncontent-length: %d\r\n\r\n%b" % (len(why), why.encode("ascii"))
    )


def split_target(target: bytes) -> tuple[str, bytes, bytes]:
    """Return the target's path, decoded, the path as it was sent, and the query.

    Raises HttpParserError if it is not a URL.
    """
    found = httptools.parse_url(target)
    raw = found.path or b""
    path = raw.decode("ascii")
    return unquote(path) if "%" in path else path, raw, found.query or b""
