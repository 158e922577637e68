"""Messages of HTTP/1.1 as bytes: heads of requests and answers, and chunks of bodies."""

from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from typing import Self

from msgspec import Struct

from strowger_gateway.adapters.base import Outbound
from strowger_gateway.gateway.backends.upstream.request_validation import check

_SHORTEST_LINE = 4
_TWO_DIGITS = 0xFF + 6
"""Bytes of the largest chunk whose size has two digits, with the size and both line ends."""


class Limits(Struct, frozen=True, kw_only=True):
    """Limits of an answer. head_bytes also bounds trailers and chunk extensions."""

    head_bytes: int = 64 * 1024
    headers: int = 256


class ReplyHeaders(Mapping[str, str]):
    """Lower-case names; a repeated header's values are joined by ", ".

    Stores the raw head and searches it per lookup: a vendor sends two dozen headers, of which one
    or two are ever read.
    """

    __slots__ = ("_head", "_lower")

    def __init__(self, head: bytes) -> None:
        """head: status line and header lines, each ended by CRLF, checked by a parser."""
        self._head = head
        self._lower = head.lower()

    @classmethod
    def of(cls, fields: Iterable[tuple[bytes, bytes]]) -> Self:
        """Build from names and values."""
        return cls(b"\r\n" + b"".join([b"%b:%b\r\n" % field for field in fields]))

    def __getitem__(self, name: str) -> str:
        needle = _line_start(name)
        start = self._lower.find(needle)
        if start < 0:
            raise KeyError(name)
        end = self._lower.find(b"\r\n", start + 2)
        value = self._head[start + len(needle) : end].strip().decode("latin-1")
        if (again := self._lower.find(needle, end)) < 0:
            return value
        return ", ".join([value, ReplyHeaders(self._head[again:])[name]])

    def __iter__(self) -> Iterator[str]:
        lines = self._lower.split(b"\r\n")[1:-1]
        return iter(dict.fromkeys(line.partition(b":")[0].decode("latin-1") for line in lines))

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def __repr__(self) -> str:
        return f"ReplyHeaders({dict(self)})"

    def fault(self, limits: Limits, status: int) -> str | None:
        """Return why an answer with this head cannot be read. Error bodies may be compressed."""
        head = self._head
        if len(head) > limits.head_bytes:
            return f"the answer's head is over {limits.head_bytes} bytes"
        most = limits.headers
        if len(head) > most * _SHORTEST_LINE and head.count(b"\r\n") - 1 > most:
            return f"the answer has more than {most} headers"
        if self._lower.find(b"-encoding:") < 0:  # `in` tries an integer first
            return None
        coding = self.get("transfer-encoding", "chunked")
        if coding.lower() != "chunked":
            return f"unknown transfer-encoding {coding!r}"
        coding = self.get("content-encoding", "identity")
        if coding.lower() != "identity" and status < 400:
            return f"the answer is compressed ({coding}), although the request asks for identity"
        return None

    def ends_with_the_connection(self) -> bool:
        """Return whether the body has no length of its own and ends with the connection."""
        return "content-length" not in self and "transfer-encoding" not in self


@lru_cache(maxsize=64)
def _line_start(name: str) -> bytes:
    return b"\r\n%b:" % name.encode("latin-1")


def head_of(received: bytes, after: int) -> bytes:
    """Return the first head in `received` after `after` informational ones, for ReplyHeaders.

    The parser has already found it.
    """
    start = 0
    for _ in range(after):
        start = received.find(b"\r\n\r\n", _begin(received, start)) + 4
    start = _begin(received, start)
    return received[start : received.find(b"\r\n\r\n", start) + 2]


def _begin(received: bytes, start: int) -> int:
    """Return the start of the status line: the parser skips empty lines before it."""
    while received[start] in b"\r\n":
        start += 1
    return start


def whole_chunk(data: bytes) -> bytes:
    """Return the content of one whole chunk, as nearly every read of a stream is one.

    b"" if data may be anything else, or if the chunk has extensions.

    For data that follows a whole chunk: a parser of the body needs not see it. Sizes with leading
    zeros or capital digits, and those below 16 or from 4 KiB, are left to the parser.
    https://www.rfc-editor.org/rfc/rfc9112#section-7.1
    """
    size = len(data) - 6 if len(data) <= _TWO_DIGITS else len(data) - 7
    head = b"%x\r\n" % size if size > 0 else b""
    body = data[len(head) : -2]
    if len(body) == size and data.startswith(head) and data.endswith(b"\r\n"):
        return body
    return b""


_HEADS_KEPT = 256

_Sent = tuple[tuple[str, str], ...]


class RequestHeads:
    """Renders requests to one origin, and caches the last head sent to each target."""

    __slots__ = ("_authority", "_kept")

    def __init__(self, authority: str) -> None:
        self._authority = authority
        self._kept: dict[str, tuple[str, _Sent, bytes]] = {}

    def render(self, outbound: Outbound, lines: bytes = b"") -> bytes:
        """Return head and body in one piece. Raises as `check`.

        lines: further ones of the head, each with CRLF. They differ with each request, so they are
        not in the head that is kept.
        """
        # Headers rarely change between requests to a target, so comparing them is cheaper than
        # checking and encoding them again.
        kept = self._kept.get(outbound.target)
        if kept is not None and kept[1] == outbound.headers and kept[0] == outbound.method:
            head = kept[2]
        else:
            head = self._head(outbound)
        body = outbound.body
        return b"%b%d\r\n%b\r\n%b" % (head, len(body), lines, body)

    def _head(self, outbound: Outbound) -> bytes:
        check(outbound)
        lines = [f"{outbound.method} {outbound.target} HTTP/1.1", f"host: {self._authority}"]
        lines += [f"{name}: {value}" for name, value in outbound.headers]
        lines += ["accept-encoding: identity", "content-length: "]
        head = "\r\n".join(lines).encode("latin-1")
        if len(self._kept) >= _HEADS_KEPT:
            self._kept.clear()
        self._kept[outbound.target] = (outbound.method, outbound.headers, head)
        return head
