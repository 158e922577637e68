"""Long lists of numbers, decoded in pieces.

One call of a decoder holds the interpreter until it is done, which for a million numbers is 60 ms.
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
"""Bytes of JSON that are decoded in one call: 130,000 numbers of one digit at the most, 8 ms."""

_AROUND: Final = b"[] \t\r\n"


def is_long(raw: Raw) -> bool:
    """Whether it is better decoded in pieces: long, and nothing but lists of numbers."""
    view = memoryview(raw)
    return len(view) > SHORT and view[0] == 0x5B and b'"' not in bytes(view)


def flat_pieces(data: bytes, decoder: ListDecoder[T]) -> Iterator[Sequence[T]]:
    """The numbers of a list, or of nested lists, in order, a piece at a time.

    data: valid JSON without strings. decoder: of a flat list of such numbers.
    Raises what the decoder does; also for objects and empty lists inside the list.
    """
    at = 0
    while at < len(data):
        end = data.find(b",", at + SHORT)
        if end < 0:
            end = len(data)
        yield decoder.decode(b"[%b]" % data[at:end].translate(None, _AROUND))
        at = end + 1


def flat(data: bytes, decoder: ListDecoder[T]) -> tuple[T, ...]:
    """All of them."""
    found: list[T] = []
    for piece in flat_pieces(data, decoder):
        found += piece
    return tuple(found)


def lists(data: bytes, decoder: ListDecoder[T]) -> tuple[T, ...] | tuple[tuple[T, ...], ...]:
    """A list of numbers, or a list of such lists. data, decoder: as for `flat_pieces`."""
    if data.count(b"[") == 1:
        return flat(data, decoder)
    inner = data.strip()[1:-1].split(b"]")
    outside = inner.pop()
    if outside.strip():
        raise msgspec.ValidationError("Expected `array`, got a number")
    return tuple([_inner(piece, decoder) for piece in inner])


def _inner(piece: bytes, decoder: ListDecoder[T]) -> tuple[T, ...]:
    """piece: a list without its closing bracket, and perhaps a comma in front."""
    before, bracket, numbers = piece.partition(b"[")
    if before.strip(b", \t\r\n") or not bracket:
        raise msgspec.ValidationError("Expected `array`, got a number")
    return (
        flat(numbers, decoder) if len(numbers) > SHORT else tuple(decoder.decode(b"[%b]" % numbers))
    )
