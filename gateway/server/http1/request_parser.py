"""Read requests from the bytes of a connection, within the limits that protect the gateway."""

import re
from typing import Protocol, cast
from urllib.parse import unquote

import httptools

from strowger_gateway.gateway.server.http1.known_head import KnownHead, known_head
from strowger_gateway.gateway.server.http1.target import authority_of, well_formed

MOST_HEAD_BYTES = 64 * 1024
"""Limit for the head of a request, and for everything that is not body data: trailers, chunk
extensions, empty lines. Without it, only memory would be the limit."""

_LARGE_HEAD = MOST_HEAD_BYTES // 4
"""Bytes from which a head is measured exactly: of one that began in the data of another message,
fewer were counted."""

_FRAMING = 16
"""Bytes allowed per byte of a body: the framing of one-byte chunks takes five or six."""

MOST_LEARNT = 8
"""Heads of a connection that are remembered, each in place of the one before: a client whose heads
are never the same pays no more for it."""

_ALL = 1 << 40
_TWO_HOSTS = b"\0"
_OFFER = frozenset({b"upgrade", b"http2-settings"})
_REQUEST_LINE = re.compile(rb"[!#-'*+\-.0-9A-Z^-z|~]{1,999} [!-~]+ HTTP/1\.[0-9]\r\n")


class BadRequest(Exception):
    """The bytes are not a request that this server answers; the connection is closed after this.

    status, why: for the answer. why: ASCII, may be empty.
    """

    def __init__(self, status: int, why: str = "") -> None:
        super().__init__(why)
        self.status = status
        self.why = why


class RequestSink(Protocol):
    """Receives what was read."""

    def on_head(self) -> None:
        """A head is complete: what the parser says of a head is about this one."""
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
    version: as far as it matters for the answer: "1.0", or "1.1" for all of HTTP/1 after that.
    method, headers: as of the last complete head; names in lower case.
    length: the content-length as sent, or b"".
    keep_alive: the client lets the connection carry another request; what comes after a request
    without it is read past.
    """

    def __init__(self, sink: RequestSink) -> None:
        self.target = b""
        self.method = self.version = ""
        self.headers: list[tuple[bytes, bytes]] = []
        self.fields: dict[bytes, bytes] = {}
        self.length = b""
        self.expects_continue = False
        self.keep_alive = True
        self.in_body = False
        self._sink = sink
        self._parser = self._fresh()
        self._fault: BadRequest | None = None
        self._over = False
        # Bytes received since the last complete head or message, minus the credit of body bytes;
        # of a head that began behind another message in the same data, at least one.
        self._silent = self._credit = 0
        self._begun = False
        # The last head, the bytes missing of a body behind it, and what a new one is learnt from.
        self._known: KnownHead | None = None
        self._left = self._learnt = 0
        self._begin = b""

    @property
    def head_started(self) -> bool:
        """Whether a head has begun to arrive and is not complete."""
        return self._silent > 0 and not self.in_body

    def close(self) -> None:
        """Break the reference cycles through what the two parsers call."""
        del self._parser, self._sink

    def feed(self, data: bytes) -> None:
        """Read. Raises BadRequest; nothing may be fed after that."""
        if not self._silent and (self._left or not self.in_body) and self.keep_alive:
            data = self._read_known(data)
            if not data:
                return
            if self._learnt < MOST_LEARNT:
                self._begin = data
        self._credit = 0
        self._silent += len(data)
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserUpgrade as exc:
            self._ignore_offer(data[cast(int, exc.args[0]) :])
            return
        except httptools.HttpParserError as exc:
            if self._over:
                return
            raise self._refusal(exc, data) from exc
        silent = self._silent - self._credit
        if silent > MOST_HEAD_BYTES:
            raise self._too_long()
        if silent < 0:
            silent = 1 if self._begun else 0
        self._silent = silent

    # Called by httptools

    def on_message_begin(self) -> None:
        if not self.keep_alive:
            self._over = True
            raise EOFError  # stops the parser, for good
        self._begun = True
        self.target = self.length = b""
        self.headers = []  # without the trailers of the message before
        self.expects_continue = False

    def on_url(self, url: bytes) -> None:
        self.target = self.target + url if self.target else url

    def on_header(self, name: bytes, value: bytes) -> None:
        # The parser strips only the other side.
        self.headers.append((name.lower(), value.rstrip()))

    def on_headers_complete(self) -> None:
        parser, headers = self._parser, self.headers
        if parser.should_upgrade():
            return  # `_ignore_offer` reads this head again
        fields = self.fields = dict(headers)
        host = fields.get(b"host")
        if len(fields) != len(headers) and [name for name, _ in headers].count(b"host") > 1:
            host = _TWO_HOSTS
        self.length = fields.get(b"content-length", b"")
        expect = fields.get(b"expect")
        self.expects_continue = expect is not None and expect.lower() == b"100-continue"
        self.method = parser.get_method().decode("ascii")
        version = self.version = parser.get_http_version()
        if version != "1.1":
            self._check_version(version)
        if self._silent > _LARGE_HEAD or len(self.target) >= MOST_HEAD_BYTES:
            self._check_size()
        if host is None or not well_formed(host) or self.target[:1] != b"/":
            self._check_target(host)
        if not self.length:
            self._check_coding()
        # A trailer may say `connection: close`, too, so this is asked before there is one.
        self.keep_alive = parser.should_keep_alive() and self.version != "1.0"
        self._credit = _ALL
        self._begun = False
        self.in_body = True
        if self._begin:
            self._learn()
        self._sink.on_head()
        self.headers = []  # what follows are trailers: they are in no request's headers

    def on_body(self, body: bytes) -> None:
        if self.in_body:
            self._credit += _FRAMING * len(body)
            self._sink.on_body(body)

    def on_message_complete(self) -> None:
        if self.in_body:
            self._credit = _ALL
            self.in_body = False
            self._sink.on_message_complete()

    def _read_known(self, data: bytes) -> bytes:
        """Read requests whose head is known, and return what follows them."""
        sink, known = self._sink, self._known
        while data:
            left = self._left
            if not left:
                if known is None or (found := known.match(data)) is None:
                    break
                digits, begin = found
                self.method, self.version, self.target = known.method, "1.1", known.target
                headers = self.headers = known.headers.copy()
                headers[known.place] = (b"content-length", digits)
                fields = self.fields = known.fields.copy()
                fields[b"content-length"] = self.length = digits
                self.expects_continue = False
                self.in_body = True
                sink.on_head()
                left = self._left = int(digits)
                data = data[begin:]
            body = data if len(data) <= left else data[:left]
            data = data[left:]
            self._left = left = left - len(body)
            if body:
                sink.on_body(body)
            if not left:
                self.in_body = False
                sink.on_message_complete()
        return data

    def _learn(self) -> None:
        """Remember a head that arrived in one piece, if the next request can repeat it."""
        begin, self._begin = self._begin, b""
        self._learnt += 1
        size = begin.find(b"\r\n\r\n") + 4
        if size > 4 and begin[0] > 0x20 and self.keep_alive and not self.expects_continue:
            found = known_head(
                begin,
                size,
                method=self.method,
                target=self.target,
                headers=self.headers,
                fields=self.fields,
            )
            self._known = found or self._known

    def _fresh(self) -> httptools.HttpRequestParser:
        parser = httptools.HttpRequestParser(self)
        # This class decides itself which versions it takes, and which request is the last one: the
        # parser would take a trailer's word for it.
        parser.set_dangerous_leniencies(lenient_version=True, lenient_keep_alive=True)
        return parser

    def _check_version(self, version: str) -> None:
        """Raise BadRequest unless it is HTTP/1."""
        if version[0] == "0":
            raise self._fails(400, "HTTP/0.9 is not supported; use HTTP/1.1.")
        if version[0] != "1":
            raise self._fails(505, "This port speaks HTTP/1.1 only.")
        if version == "1.0":
            self.expects_continue = False
        else:
            self.version = "1.1"

    def _check_size(self) -> None:
        """Raise BadRequest if the head is too long; what was received may contain more."""
        lines = sum(len(name) + len(value) for name, value in self.headers)
        if len(self.target) + lines + 4 * len(self.headers) > MOST_HEAD_BYTES:
            raise self._too_long()

    def _too_long(self) -> BadRequest:
        return self._fails(431 if len(self.target) < MOST_HEAD_BYTES else 414)

    def _check_coding(self) -> None:
        """Raise BadRequest for a coding under the chunks; without chunks, the parser refuses it."""
        codings = [value for name, value in self.headers if name == b"transfer-encoding"]
        if codings and b",".join(codings).lower() != b"chunked" and _ends_chunked(codings[-1]):
            raise self._fails(501, "The only transfer-encoding that is supported is chunked.")

    def _check_target(self, host: bytes | None) -> None:
        """Raise BadRequest if HTTP/1.1 forbids the target or the Host."""
        if host is None and self.version == "1.1":
            raise self._fails(400, "The Host header is missing; HTTP/1.1 requires it.")
        if host is _TWO_HOSTS:
            raise self._fails(400, "There is more than one Host header.")
        if host is not None and not well_formed(host):
            raise self._fails(400, "The Host header is not a valid host and port.")
        if (absolute := authority_of(self.target)) is not None:
            authority, self.target = absolute
            if not authority or not well_formed(authority):
                raise self._fails(400, "The request target's host is not a valid host and port.")
            others = [field for field in self.headers if field[0] != b"host"]
            self.headers[:] = [(b"host", authority), *others]
            self.fields[b"host"] = authority
        elif self.target[:1] != b"/" and (
            self.target != b"*" or self._parser.get_method() != b"OPTIONS"
        ):
            raise self._fails(400, "The request target must be a path that begins with a slash.")

    def _fails(self, status: int, why: str = "") -> BadRequest:
        """Return what to raise, and store it: the parser passes on no exception of a callback."""
        self._fault = BadRequest(status, why)
        return self._fault

    def _refusal(self, exc: httptools.HttpParserError, data: bytes) -> BadRequest:
        """Return what to answer when the parser fails in this data."""
        if self._fault is not None:
            return self._fault
        unknown = isinstance(exc, httptools.HttpParserInvalidMethodError)
        method = unknown or "Invalid method" in str(exc)  # one of RTSP's
        first = self._silent == len(data) and not self._credit
        if method and first and _REQUEST_LINE.match(data.lstrip(b"\r\n")):
            return BadRequest(501, "The method is unknown.")
        return BadRequest(400, "Invalid HTTP request received.")

    def _ignore_offer(self, rest: bytes) -> None:
        """Parse the same head again without the offer of another protocol, and what followed it.

        The parser treats what follows such a head as the other protocol, so a new one replaces it.
        """
        method, version = self._parser.get_method(), self._parser.get_http_version()
        if method == b"CONNECT":
            raise BadRequest(400, "This server is not a proxy.")
        lines = [b"%b %b HTTP/%b" % (method, self.target, version.encode())]
        lines += [b"%b: %b" % field for field in self.headers if field[0] not in _OFFER]
        self._parser = self._fresh()
        self._silent = 0
        self._begun = False
        self.feed(b"\r\n".join(lines) + b"\r\n\r\n" + rest)


def _ends_chunked(codings: bytes) -> bool:
    return codings.lower().rpartition(b",")[2].strip() == b"chunked"


def split_target(target: bytes) -> tuple[str, bytes, bytes]:
    """Return the target's path, decoded, the path as it was sent, and the query.

    Raises HttpParserError if it is not a URL.
    """
    found = httptools.parse_url(target)
    raw = found.path or b""
    path = raw.decode("ascii")
    return unquote(path) if "%" in path else path, raw, found.query or b""
