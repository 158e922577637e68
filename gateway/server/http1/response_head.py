"""Render the head of a response. https://www.rfc-editor.org/rfc/rfc9112#section-4"""

import time
from email.utils import formatdate
from http import HTTPStatus
from typing import Final

Headers = list[tuple[bytes, bytes]]

_PHRASES: Final = {status.value: status.phrase.encode() for status in HTTPStatus}
_AS_LINE: Final = b": ".join
_END: Final = (b"", b"")
_CR: Final = ord("\r")
_LF: Final = ord("\n")
_NUL: Final = 0
_CACHED: Final = 16
"""Status lines kept per second; more different ones are rendered each time."""


class ResponseHeads:
    """Renders heads; the status line and the date are rendered once per second and status."""

    __slots__ = ("_begun", "_second")

    def __init__(self) -> None:
        self._second = -1
        self._begun: dict[int, bytes] = {}

    def render(self, status: int, headers: Headers, last: bytes) -> bytes:
        """Return the head with its blank line.

        last: the line of the framing, without its end, or b"". Raises ValueError if a header
        contains a line break or a NUL, which would let its author write headers of his own.
        """
        second = int(time.time())
        if second != self._second:
            self._second = second
            self._begun.clear()
        begun = self._begun.get(status)
        if begun is None:
            begun = self._begin(status, second)
        lines = [*map(_AS_LINE, headers)]
        text = b"".join(lines)
        # `in` with a byte takes a tenth of the time that splitting the head into lines does.
        if _CR in text or _LF in text or _NUL in text:
            raise ValueError("a response header contains a line break or a NUL")
        return b"\r\n".join((begun, *lines, last, *_END) if last else (begun, *lines, *_END))

    def refusal(self, status: int, why: str = "") -> bytes:
        """Return a whole answer to what cannot be answered as a request; it ends the connection.

        why: ASCII, the body.
        """
        kind = [(b"content-type", b"text/plain; charset=utf-8")] if why else []
        length = (b"content-length", b"%d" % len(why))
        return self.render(status, [*kind, length], b"connection: close") + why.encode("ascii")

    def _begin(self, status: int, second: int) -> bytes:
        phrase = _PHRASES.get(status, b"")
        date = formatdate(second, usegmt=True).encode()
        begun = b"HTTP/1.1 %d %b\r\ndate: %b" % (status, phrase, date)
        if len(self._begun) < _CACHED:
            self._begun[status] = begun
        return begun
