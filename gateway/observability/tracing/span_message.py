"""Encode spans as OTLP messages.

Field numbers: opentelemetry/proto/trace/v1/trace.proto,
https://github.com/open-telemetry/opentelemetry-proto/tree/v1.7.0
"""

from binascii import unhexlify
from collections.abc import Iterable
from functools import lru_cache
from struct import Struct, pack
from typing import Final

from strowger_gateway.gateway.observability.otlp.protobuf import (
    MAX_CHARS,
    Value,
    key_value,
    part,
    varint,
)

SERVER: Final = 2
CLIENT: Final = 3

span_times: Final = Struct("<BQBQ").pack
"""Fields 7 and 8 of a span: START, Unix nanoseconds, END, Unix nanoseconds."""
START: Final = 0x39
END: Final = 0x41
_SHORT: Final = 64
"""Bytes of a value whose attribute has one-byte lengths; keys have at most 40."""
_FLAGS: Final = b"\x85\x01"
_SAMPLED, _KNOWN_REMOTE, _REMOTE = 0x1, 0x100, 0x200
"""Of field 16, flags."""


def attribute(key: str, value: Value) -> bytes:
    """Encode field 9 of a span: one attribute."""
    return part(9, key_value(key, value))


def attributes(pairs: Iterable[tuple[str, Value]]) -> bytes:
    """Encode several attributes."""
    return b"".join([attribute(key, value) for key, value in pairs])


def text_attribute(key: str, value: str) -> bytes:
    """`attribute` of a text, for keys of which there are few."""
    data = value[:MAX_CHARS].encode("utf-8", "replace")
    if len(data) > _SHORT:
        return attribute(key, value)
    return text_head(key, len(data)) + data


class CountAttribute:
    """`attribute` of a number of at least 0, for one key of at most 40 characters."""

    def __init__(self, key: str) -> None:
        self._key = key
        self._short, self._long = _count_head(key, 1), _count_head(key, 2)

    def of(self, value: int) -> bytes:
        if value < 0x80:
            return b"%b%c" % (self._short, value)
        if value < 0x4000:
            return b"%b%c%c" % (self._long, value & 0x7F | 0x80, value >> 7)
        return attribute(self._key, value)


@lru_cache(maxsize=256)
def text_head(key: str, size: int) -> bytes:
    """Encode an attribute up to its text of so many bytes, at most 64."""
    head = part(1, key.encode()) + b"\x12"
    return b"\x4a%c%b%c\x0a%c" % (len(head) + size + 3, head, size + 2, size)


def _count_head(key: str, size: int) -> bytes:
    """Encode an attribute up to its number of so many bytes."""
    head = part(1, key.encode()) + b"\x12"
    return b"\x4a%c%b%c\x18" % (len(head) + size + 2, head, size + 1)


def event(name: bytes, at: float, attributes: Iterable[bytes] = ()) -> bytes:
    """Encode field 11 of a span: one event. at: Unix seconds.

    attributes: KeyValues, each as field 3.
    """
    return part(11, b"\x09" + pack("<Q", int(at * 1e9)) + part(2, name) + b"".join(attributes))


def constant_fields(
    name: str, kind: int, attributes: bytes, *, failed: bool = False, remote: bool = False
) -> bytes:
    """Encode the fields that many spans have alike: name, kind, flags, status, attributes.

    remote: the span's parent is in another process. attributes: as from `attributes`.
    """
    flags = pack("<I", _SAMPLED | _KNOWN_REMOTE | (_REMOTE if remote else 0))
    status = b"\x7a\x02\x18\x02" if failed else b""
    encoded = part(5, name.encode("utf-8", "replace"))
    return b"".join((encoded, bytes((0x30, kind)), attributes, status, _FLAGS, flags))


def span(
    trace_id: bytes,
    span_id: bytes,
    parent_id: bytes,
    started: float,
    ended: float,
    constant: bytes,
    more: Iterable[bytes] = (),
) -> bytes:
    """Encode field 2 of ScopeSpans: one span.

    trace_id: 16 bytes. span_id, parent_id: 16 hexadecimal digits; parent_id: b"" without a parent.
    started, ended: Unix seconds. constant: as from `constant_fields`. more: as from `attribute`,
    `event` and `trace_state`.
    """
    body = b"\x0a\x10%b\x12\x08%b%b%b%b%b" % (
        trace_id,
        unhexlify(span_id),
        b"\x22\x08" + unhexlify(parent_id) if parent_id else b"",
        span_times(START, int(started * 1e9), END, int(ended * 1e9)),
        constant,
        b"".join(more),
    )
    return b"\x12%b%b" % (varint(len(body)), body)


def span_template(constant: bytes, size: int, *, child: bool) -> bytes:
    """Return what `span` returns, with %b for a trace id, a span id, a parent's, times, and more.

    The three ids are bytes; there is none of a parent unless the span is a child. The times are
    those of `span_times`. size: bytes of what comes last.
    """
    parent = b"\x22\x08%b" if child else b""
    length = 18 + 10 + (10 if child else 0) + 18 + len(constant) + size
    escaped = constant.replace(b"%", b"%%")
    return b"\x12%b\x0a\x10%%b\x12\x08%%b%b%%b%b%%b" % (varint(length), parent, escaped)


def trace_state(state: str) -> bytes:
    """Encode field 3 of a span: the `tracestate`."""
    return part(3, state.encode()) if state else b""
