"""Estimate how much work decoding a JSON body is, before a decoder starts.

A decoder runs in one call that no other thread can interrupt, and its time depends on the number
of values, not of bytes: a megabyte of `[],[],[]` takes longer than twenty megabytes of prompt.
"""

from typing import Final

from msgspec import Struct

from schemas.errors import InvalidRequest

MOST_FIELDS: Final = 50_000
"""Maximum number of fields in a body, and of objects and lists: some 20 ms of decoding."""

MOST_STRINGS: Final = 200_000
"""Maximum number of strings in a body, including the names of its fields."""

MOST_VALUES: Final = 1_000_000
"""Maximum number of values in a body. Long lists of numbers are decoded in pieces."""

MOST_WIDE: Final = 6 * 1024 * 1024
"""Maximum bytes of one string with characters beyond ASCII: 10 to 20 ms of decoding."""

MOST_ESCAPES: Final = 1_000_000
"""Maximum escapes in one string: 10 to 20 ms. Base64 with escaped slashes has 500,000 in 32 MB."""

PIECE: Final = 256 * 1024
"""Bytes scanned in one call: less than 10 ms in the worst case."""

_VALUE_BYTES: Final = 40
"""Estimated bytes of a decoded value, including its place in a list or an object."""


class BodyComplexity(Struct, kw_only=True):
    """What a body contains. values: counted by commas; containers: objects and lists."""

    values: int = 1
    fields: int = 0
    containers: int = 0
    strings: int = 0

    @property
    def size(self) -> int:
        """Return the estimated bytes of the decoded values, in addition to the body itself."""
        return _VALUE_BYTES * (self.values + self.strings + 2 * self.containers)


class _Text(Struct, kw_only=True):
    """One string that spans whole pieces. size: bytes."""

    size: int = 0
    escapes: int = 0
    wide: bool = False

    def add(self, size: int, escapes: int, *, wide: bool) -> None:
        """Raise InvalidRequest if the string would block the decoder for too long."""
        self.size += size
        self.escapes += escapes
        self.wide = self.wide or wide
        if self.wide and self.size > MOST_WIDE:
            raise InvalidRequest(
                f"one string has more than {MOST_WIDE} bytes, some of them not ASCII; split the "
                "text into several messages or content parts",
                code="body_too_complex",
            )
        if self.escapes > MOST_ESCAPES:
            raise InvalidRequest(
                f"one string has more than {MOST_ESCAPES} JSON escapes; send the characters "
                "unescaped as UTF-8, or split the text into several messages or content parts",
                code="body_too_complex",
            )


def measure(body: bytes, end: int) -> BodyComplexity:
    """Count what is outside of strings in the first `end` bytes, piece by piece.

    Raises InvalidRequest, which names the limit, as soon as one limit is exceeded.
    """
    weight = BodyComplexity()
    inside = False
    longest = _Text()
    at = 0
    while at < end:
        stop = _whole(body, at, min(at + PIECE, end))
        piece = body[at:stop]
        escapes = piece.count(b"\\")
        if escapes:
            escapes -= piece.count(b"\\\\")
            piece = piece.replace(b"\\\\", b"").replace(b'\\"', b"")
        inside = _count(piece, weight, inside=inside)
        _check(weight)
        if b'"' in piece:
            longest = _Text()
        elif inside:
            longest.add(stop - at, escapes, wide=not piece.isascii())
        at = stop
    return weight


def _count(piece: bytes, weight: BodyComplexity, *, inside: bool) -> bool:
    """inside: a string continues from the piece before. Return whether one continues after it."""
    quotes = piece.count(b'"')
    if quotes:
        structure = b"".join(piece.split(b'"')[inside::2])
        weight.strings += (quotes + (not inside)) // 2
    elif inside:
        return True
    else:
        structure = piece
    weight.values += structure.count(b",")
    weight.fields += structure.count(b":")
    weight.containers += structure.count(b"{") + structure.count(b"[")
    return inside != bool(quotes % 2)


def _whole(body: bytes, at: int, stop: int) -> int:
    """Return the end of a piece that does not split a backslash from what it escapes."""
    end = stop
    while end > at and body[end - 1] == 0x5C:
        end -= 1
    return stop if (stop - end) % 2 == 0 else stop + 1


def _check(weight: BodyComplexity) -> None:
    found = (
        (weight.fields, MOST_FIELDS, "fields"),
        (weight.containers, MOST_FIELDS, "objects and lists"),
        (weight.strings, MOST_STRINGS, "strings"),
        (weight.values, MOST_VALUES, "values"),
    )
    for count, most, what in found:
        if count > most:
            raise InvalidRequest(
                f"the body has more than {most} {what}; split it into several requests",
                code="body_too_complex",
            )
