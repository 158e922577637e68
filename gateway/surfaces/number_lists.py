"""Decode long lists of numbers in pieces.

One call of a decoder blocks the interpreter until it is done: 60 ms for a million numbers.
"""

from collections.abc import Iterator, Sequence
from typing import Final, Protocol, TypeVar

import msgspec
from msgspec import Raw

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)


class ListDecoder(Protocol[T_co]):
    """A decoder of flat lists."""

    def decode(self, buf: bytes, /) -> Sequence[T_co]: ...


SHORT: Final = 256 * 1024
"""Bytes of JSON decoded in one call: at most 130,000 one-digit numbers, 8 ms."""

_AROUND: Final = b"[] \t\r\n"


def is_long(raw: Raw) -> bool:
    """Return whether to decode in pieces: long, and only lists of numbers."""
    view = memoryview(raw)
    return len(view) > SHORT and view[0] == 0x5B and b'"' not in bytes(view)


def flat_pieces(data: bytes, decoder: ListDecoder[T]) -> Iterator[Sequence[T]]:
    """Yield the numbers of a list, or of nested lists, in order, piece by piece.

    data: valid JSON without strings. decoder: decodes a flat list of such numbers.
    Raises what the decoder raises; also for objects and empty lists inside the list.
    """
    at = 0
    while at < len(data):
        end = data.find(b",", at + SHORT)
        if end < 0:
            end = len(data)
        yield decoder.decode(b"[%b]" % data[at:end].translate(None, _AROUND))
        at = end + 1


def flat(data: bytes, decoder: ListDecoder[T]) -> tuple[T, ...]:
    """Return all numbers."""
    found: list[T] = []
    for piece in flat_pieces(data, decoder):
        found += piece
    return tuple(found)


def lists(data: bytes, decoder: ListDecoder[T]) -> tuple[T, ...] | tuple[tuple[T, ...], ...]:
    """Decode a list of numbers, or a list of such lists. data, decoder: as for `flat_pieces`."""
    if data.count(b"[") == 1:
        return flat(data, decoder)
    inner = data.strip()[1:-1].split(b"]")
    outside = inner.pop()
    if outside.strip():
        raise msgspec.ValidationError("Expected `array`, got a number")
    return tuple([_inner(piece, decoder) for piece in inner])


def _inner(piece: bytes, decoder: ListDecoder[T]) -> tuple[T, ...]:
    """piece: a list without its closing bracket, possibly with a leading comma."""
    before, bracket, numbers = piece.partition(b"[")
    if before.strip(b", \t\r\n") or not bracket:
        raise msgspec.ValidationError("Expected `array`, got a number")
    return (
        flat(numbers, decoder) if len(numbers) > SHORT else tuple(decoder.decode(b"[%b]" % numbers))
    )
