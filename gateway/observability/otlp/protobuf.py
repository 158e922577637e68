"""Encode the parts that all OTLP messages have, and decode the collector's answer.

Written by hand, because they need varints and four field types (ADR 45). Field numbers:
opentelemetry/proto/common/v1/common.proto and opentelemetry/proto/collector/*/v1/*_service.proto,
https://github.com/open-telemetry/opentelemetry-proto/tree/v1.7.0
"""

from collections.abc import Iterable, Iterator
from struct import pack
from typing import Final

Value = str | int | float | bool

MAX_CHARS: Final = 1024
"""Characters of a value that are kept."""

VARINT, FIXED64, BYTES, FIXED32 = 0, 1, 2, 5
"""https://protobuf.dev/programming-guides/encoding/#structure"""


def varint(number: int) -> bytes:
    """Encode a number of at least 0."""
    if number < 0x80:
        return b"%c" % number
    if number < 0x4000:
        return b"%c%c" % (number & 0x7F | 0x80, number >> 7)
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)


def part(number: int, data: bytes) -> bytes:
    """Encode a field of bytes, a string or a message."""
    return varint(number << 3 | BYTES) + varint(len(data)) + data


def key_value(key: str, value: Value, max_chars: int = MAX_CHARS) -> bytes:
    """Encode a KeyValue. An int is at least 0."""
    return part(1, key.encode()) + part(2, any_value(value, max_chars))


def any_value(value: Value, max_chars: int = MAX_CHARS) -> bytes:
    """Encode an AnyValue. An int is at least 0."""
    if isinstance(value, bool):
        return b"\x10\x01" if value else b"\x10\x00"
    if isinstance(value, int):
        return b"\x18" + varint(value)
    if isinstance(value, float):
        return b"\x21" + pack("<d", value)
    return part(1, value[:max_chars].encode("utf-8", "replace"))


def export_request(items: Iterable[bytes], resource: bytes, scope: bytes, schema_url: str) -> bytes:
    """Encode an Export{Trace,Metrics,Logs}ServiceRequest: they have the same field numbers.

    items: each as field 2 of its ScopeX message. resource: the KeyValues of its attributes, each
    as field 1. scope: an InstrumentationScope.
    """
    # The lengths come first, so that an export of half a megabyte is put together only once.
    own, named, url = part(1, resource), part(1, scope), part(3, schema_url.encode())
    pieces = [named, *items, url]
    size = sum(map(len, pieces))
    scoped = varint(2 << 3 | BYTES) + varint(size)
    whole = varint(1 << 3 | BYTES) + varint(len(own) + len(scoped) + size + len(url))
    return b"".join([whole, own, scoped, *pieces, url])


def partial_success(body: bytes) -> tuple[int, str]:
    """Return how many items the collector rejected of those it received, and its reason.

    body: an Export{Trace,Metrics,Logs}ServiceResponse; (0, "") if it is not one, because the
    answer's status has already accepted the request.
    https://opentelemetry.io/docs/specs/otlp/#partial-success-1
    """
    rejected, reason = 0, b""
    try:
        for number, value in _fields(body):
            if number == 1 and isinstance(value, bytes):
                for inner, held in _fields(value):
                    if inner == 1 and isinstance(held, int):
                        rejected = held
                    elif inner == 2 and isinstance(held, bytes):
                        reason = held
    except IndexError:
        return 0, ""
    return rejected if rejected < 2**63 else 0, reason[:MAX_CHARS].decode("utf-8", "replace")


def _fields(data: bytes) -> Iterator[tuple[int, int | bytes]]:
    """Yield numbers and values of a message's fields. Raises IndexError if it is not a message."""
    at = 0
    while at < len(data):
        tag, at = _read_varint(data, at)
        kind = tag & 7
        if kind == VARINT:
            value, at = _read_varint(data, at)
            yield tag >> 3, value
            continue
        if kind == BYTES:
            size, at = _read_varint(data, at)
        elif kind in (FIXED64, FIXED32):
            size = 8 if kind == FIXED64 else 4
        else:
            raise IndexError
        if size > len(data) - at:
            raise IndexError
        yield tag >> 3, data[at : at + size]
        at += size


def _read_varint(data: bytes, at: int) -> tuple[int, int]:
    number = 0
    for shift in range(0, 70, 7):
        byte = data[at]
        at += 1
        number |= (byte & 0x7F) << shift
        if byte < 0x80:
            return number, at
    raise IndexError
