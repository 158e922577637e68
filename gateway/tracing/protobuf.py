"""Encode spans as OTLP protobuf messages.

Written by hand, because spans need one varint and four field types (ADR 45). Field numbers:
opentelemetry/proto/trace/v1/trace.proto,
https://github.com/open-telemetry/opentelemetry-proto/tree/v1.7.0
"""

from collections.abc import Iterable
from functools import lru_cache
from struct import pack
from typing import Final

Value = str | int | float | bool

SERVER: Final = 2
CLIENT: Final = 3

MAX_CHARS: Final = 1024
"""Characters of a value that are kept."""


def varint(number: int) -> bytes:
    """Encode a number of at least 0."""
    if number < 0x80:
        return bytes((number,))
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)


def part(number: int, data: bytes) -> bytes:
    """Encode a field of bytes, a string or a message."""
    return varint(number << 3 | 2) + varint(len(data)) + data


def attribute(key: str, value: Value) -> bytes:
    """Encode field 9 of a span: one attribute."""
    return part(9, key_value(key, value))


known_attribute = lru_cache(maxsize=4096)(attribute)
"""`attribute`, for values of which there are few."""


def key_value(key: str, value: Value) -> bytes:
    """Encode a KeyValue. An int is at least 0."""
    if isinstance(value, bool):
        held = b"\x10\x01" if value else b"\x10\x00"
    elif isinstance(value, int):
        held = b"\x18" + varint(value)
    elif isinstance(value, float):
        held = b"\x21" + pack("<d", value)
    else:
        held = part(1, value[:MAX_CHARS].encode("utf-8", "replace"))
    return part(1, key.encode()) + part(2, held)


def span(
    trace_id: bytes,
    span_id: bytes,
    parent_id: bytes,
    name: bytes,
    kind: int,
    started: float,
    ended: float,
    attributes: Iterable[bytes],
    *,
    state: str = "",
    failed: bool = False,
) -> bytes:
    """Encode field 2 of ScopeSpans: one span.

    started, ended: Unix seconds. attributes: as from `attribute`. state: the `tracestate`.
    """
    head = b"\x0a\x10" + trace_id + b"\x12\x08" + span_id
    if state:
        head += part(3, state.encode())
    if parent_id:
        head += b"\x22\x08" + parent_id
    times = pack("<BBBQBQ", 0x30, kind, 0x39, int(started * 1e9), 0x41, int(ended * 1e9))
    status = b"\x7a\x02\x18\x02" if failed else b""
    return part(2, b"".join((head, part(5, name), times, *attributes, status)))


def request_of(spans: Iterable[bytes], resource: bytes, scope: bytes, schema_url: str) -> bytes:
    """Encode an ExportTraceServiceRequest. spans: as from `span`.

    resource: the KeyValues of its attributes, each as field 1. scope: InstrumentationScope.
    """
    url = part(3, schema_url.encode())
    scoped = part(1, scope) + b"".join(spans) + url
    return part(1, part(1, resource) + part(2, scoped) + url)
