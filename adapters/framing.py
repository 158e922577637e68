"""Splits a body into frames: server-sent events and JSON lines, fed in arbitrary pieces.

SSE: https://html.spec.whatwg.org/multipage/server-sent-events.html#parsing-an-event-stream

Most frames of a stream differ only in their text. `place_of` finds where it is in one of them, so
that a reader takes the text of the next ones from the same place, without splitting or decoding.
"""

import re
from collections.abc import Callable
from typing import Annotated, Final, Protocol

import msgspec
from msgspec import Meta, Struct

from strowger_gateway.adapters.base import STRAY, Framing
from strowger_gateway.adapters.eventstream import EventStreamParser, over_limit
from strowger_gateway.schemas.errors import UpstreamBroken

Frame = tuple[str, bytes]
"""An event name ("" if the stream sends none) and its data."""

MAX_FRAME = 16 * 1024 * 1024
"""Bytes of one frame; a longer one is an error."""

_BOM = b"\xef\xbb\xbf"
_NAME = frozenset(b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_")
_WHOLE = (b"}", b"]")
_BETWEEN = b"\n\ndata: "
_comments = re.compile(rb"^(?::[^\n]*\n){16,}", re.MULTILINE)
"""Sixteen comments in a row, and more: a server that floods its client costs little time so."""
_events_of_comments = re.compile(rb"^(?::[^\n]*\n\n+){16,}", re.MULTILINE)
"""The same with a blank line after each; together they end a frame, as one blank line does."""
_KEY: Final = b'"content"'

read_text: Final = msgspec.json.Decoder(Annotated[str, Meta(min_length=1)]).decode
"""Reads a text, not "", with its quotes. Raises UNREADABLE."""

UNREADABLE: Final = (msgspec.DecodeError, UnicodeDecodeError)


class FrameParser(Protocol):
    """Keeps state between calls; frames do not depend on how the bytes are split."""

    def feed(self, data: bytes) -> list[Frame]:
        """Return the frames that `data` completes. Raises UpstreamBroken for one over the limit."""
        ...

    def close(self) -> list[Frame]:
        """Handle the end of the body: return what was held back, if it is complete."""
        ...


class SSEParser:
    """Server-sent events by the standard, with three additions.

    Lines that are not fields (a bare JSON error in a 200 stream) are returned under STRAY, at the
    next blank line or at the end, and so is what follows `error: `, the field in which llama.cpp
    puts the error that ends a stream. A last frame without its blank line is delivered at the end,
    where the standard would drop it, because servers omit it after `[DONE]`; a last line without
    its line end only if it looks complete. `id` and `retry` are ignored.
    """

    def __init__(self, upstream: str = "upstream", limit: int = MAX_FRAME) -> None:
        self._upstream = upstream
        self._limit = limit
        # The mutable state. `_head`: the start of the body until it is known whether a BOM is
        # there, then `None`. `_tail`: the pieces of an unfinished line, `_held` bytes in total.
        # `_size`: bytes of the finished lines of an unfinished frame.
        self._between = False
        """True if nothing is held: the next byte starts a frame."""
        self._head: bytes | None = b""
        self._after_cr = False
        self._tail: list[bytes] = []
        self._held = 0
        self._event = ""
        self._data: list[bytes] = []
        self._stray: list[bytes] = []
        self._size = 0

    def feed(self, data: bytes) -> list[Frame]:
        # Most reads are one frame of one `data` line; this recognises them without `_feed`'s state.
        # `find`, because `in` tries to read its left side as a number first: ten times the cost.
        if self._between and data.startswith(b"data: ") and data.find(b"\r") < 0:
            end = data.find(b"\n")
            if end == len(data) - 2 and data.endswith(b"\n") and end <= self._limit:
                return [("", data[6:end])]
        return self._feed(data)

    def _feed(self, data: bytes) -> list[Frame]:
        self._between = False
        if self._head is not None:
            data = self._without_bom(data)
        if self._after_cr or data.find(b"\r") >= 0:
            data = self._with_newlines(data)
        if self._tail:
            if data.find(b"\n") < 0:
                return self._hold(data)
            data = b"".join((*self._tail, data))
            self._tail.clear()
            self._held = 0
        frames: list[Frame] = []
        if data.startswith(b":") or data.find(b"\n:") >= 0:
            data = _events_of_comments.sub(b"\n", _comments.sub(b"", data))
        if not self._size and not self._event:
            data = self._whole_frames(data, frames)
        if data:
            *lines, tail = data.split(b"\n")
            for line in lines:
                self._line(line, frames)
            self._hold(tail)
        held = self._head or self._after_cr or self._tail or self._size or self._event
        self._between = self._head is None and not held
        return frames

    def close(self) -> list[Frame]:
        frames: list[Frame] = []
        tail = b"".join((self._head or b"", *self._tail))
        if tail and (self._stray or not _is_field(tail) or tail.endswith(_WHOLE)):
            self._line(tail, frames)
        # A lone empty `data:` line at the end is a truncated frame, not an empty one.
        if self._stray or self._data != [b""]:
            self._dispatch(frames)
        return frames

    @property
    def inside(self) -> bool:
        """Return whether a frame has begun that is not complete."""
        return bool(self._head or self._tail or self._size or self._event)

    def _whole_frames(self, data: bytes, frames: list[Frame]) -> bytes:
        """Append the frames that are complete in `data`. Returns the rest.

        The fast path is a block of single `data` lines: every line end in it belongs to a gap
        between two of them.
        """
        cut = data.rfind(b"\n\n")
        if cut < 0:
            return data
        block, rest = data[:cut], data[cut + 2 :]
        plain = block.startswith(b"data: ") and len(block) <= self._limit
        if plain and block.count(b"\n") == 2 * block.count(_BETWEEN):
            frames += [("", frame) for frame in block[6:].split(_BETWEEN)]
            return rest
        for frame in block.split(b"\n\n"):
            for line in frame.split(b"\n"):
                self._line(line, frames)
            self._dispatch(frames)
        return rest

    def _line(self, line: bytes, frames: list[Frame]) -> None:
        if not line:
            self._dispatch(frames)
            return
        name, _, value = line.partition(b":")
        value = value.removeprefix(b" ")
        if name == b"data":
            self._data.append(value)
            self._grow(len(line))
        elif name == b"event":
            self._event = value.decode(errors="replace")
        elif name and (not _is_field(line) or name == b"error" or self._stray):  # else a comment
            self._stray.append(value if name == b"error" and not self._stray else line)
            self._grow(len(line))

    def _dispatch(self, frames: list[Frame]) -> None:
        if self._stray:
            frames.append((STRAY, b"\n".join(self._stray)))
            self._stray.clear()
        if self._data:
            frames.append((self._event, b"\n".join(self._data)))
            self._data.clear()
        self._event = ""
        self._size = 0

    def _hold(self, tail: bytes) -> list[Frame]:
        if tail:
            self._tail.append(tail)
            self._held += len(tail)
            if self._size + self._held > self._limit:
                raise self._too_large()
        return []

    def _grow(self, size: int) -> None:
        self._size += size + 1
        if self._size > self._limit:
            raise self._too_large()

    def _too_large(self) -> UpstreamBroken:
        return over_limit(f"a frame is over {self._limit} bytes", self._upstream)

    def _without_bom(self, data: bytes) -> bytes:
        data = (self._head or b"") + data
        if len(data) < len(_BOM) and _BOM.startswith(data):
            self._head = data
            return b""
        self._head = None
        return data.removeprefix(_BOM)

    def _with_newlines(self, data: bytes) -> bytes:
        """Replace CRLF and CR by LF, also if a CRLF is split between two pieces."""
        if not data:
            return data
        if self._after_cr and data.startswith(b"\n"):
            data = data[1:]
        self._after_cr = data.endswith(b"\r")
        return data.replace(b"\r\n", b"\n").replace(b"\r", b"\n")


class UnmarkedSSEParser(SSEParser):
    """Server-sent events of a dialect without an end mark: the body must end between frames."""

    def close(self) -> list[Frame]:
        """Raises UpstreamBroken if the body ended inside a frame."""
        if self.inside:
            raise UpstreamBroken("stream ended inside a frame", upstream=self._upstream)
        return []


class LinesParser:
    """One JSON text per line (NDJSON); blank lines are skipped, the last may lack its line end."""

    def __init__(self, upstream: str = "upstream", limit: int = MAX_FRAME) -> None:
        self._upstream = upstream
        self._limit = limit
        self._tail: list[bytes] = []
        self._size = 0

    def feed(self, data: bytes) -> list[Frame]:
        if b"\n" not in data:
            self._hold(data)
            return []
        *lines, tail = b"".join((*self._tail, data)).split(b"\n")
        self._tail.clear()
        self._size = 0
        self._hold(tail)
        return [("", line) for line in map(bytes.strip, lines) if line]

    def close(self) -> list[Frame]:
        line = b"".join(self._tail).strip()
        self._tail.clear()
        self._size = 0
        return [("", line)] if line else []

    def _hold(self, tail: bytes) -> None:
        if tail:
            self._tail.append(tail)
            self._size += len(tail)
            if self._size > self._limit:
                raise over_limit(f"a line is over {self._limit} bytes", self._upstream)


def _is_field(line: bytes) -> bool:
    """Return whether the line is a comment or looks like a field, known or unknown."""
    name = line.partition(b":")[0]
    return _NAME.issuperset(name)


FRAMING: dict[Framing, Callable[[str, int], FrameParser]] = {
    "sse": SSEParser,
    "sse-unmarked": UnmarkedSSEParser,
    "ndjson": LinesParser,
    "eventstream": EventStreamParser,
}
"""A parser for each framing; takes the provider's name, with which its errors start, and the most
bytes of a frame."""


class TextPlace(Struct, frozen=True):
    """The bytes around the text's value, with its quotes, and the choice that the text belongs to.

    Another frame with the same bytes around its text has the same meaning with another text.
    """

    before: bytes
    after: bytes
    index: int


def place_of(data: bytes, index: int) -> TextPlace | None:
    """Find the text of a frame that was read as a TextChunk of OpenAI's; `None` if it is uncertain.

    That type has one field for the text, requires it, and allows no unknown fields. So if its name
    occurs once and nothing is escaped, no other key or value can be meant.
    """
    if data.count(_KEY) != 1 or data.find(b"\\") >= 0:
        return None
    at = data.index(_KEY) + len(_KEY)
    while data[at : at + 1] in (b" ", b":"):
        at += 1
    end = data.find(b'"', at + 1)
    if data[at : at + 1] != b'"' or end < 0:
        return None
    return TextPlace(data[: at + 1], data[end:], index)
