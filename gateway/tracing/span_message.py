"""Encode spans as OTLP messages.

Field numbers: opentelemetry/proto/trace/v1/trace.proto,
https://github.com/open-telemetry/opentelemetry-proto/tree/v1.7.0
"""

from collections.abc import Iterable
from struct import Struct, pack
from typing import Final

from gateway.otlp.protobuf import Value, key_value, part

SERVER: Final = 2
CLIENT: Final = 3

_FIXED: Final = Struct("<BB16sBB8sBBBQBQ")
"""Fields 1, 2, 6, 7 and 8: trace and span id, kind, start and end."""
_LOCAL_PARENT: Final = b"\x85\x01" + pack("<I", 0x101)
_REMOTE_PARENT: Final = b"\x85\x01" + pack("<I", 0x301)
"""Field 16, flags: the trace is sampled; it is known whether the parent is in another process."""


def attribute(key: str, value: Value) -> bytes:
    """Encode field 9 of a span: one attribute."""
    return part(9, key_value(key, value))


def attributes(pairs: Iterable[tuple[str, Value]]) -> bytes:
    """Encode several attributes."""
    return b"".join([attribute(key, value) for key, value in pairs])


def event(name: bytes, at: float, attributes: Iterable[bytes] = ()) -> bytes:
    """Encode field 11 of a span: one event. at: Unix seconds.

    attributes: KeyValues, each as field 3.
    """
    return part(11, b"\x09" + pack("<Q", int(at * 1e9)) + part(2, name) + b"".join(attributes))


def span(
    trace_id: int,
    span_id: int,
    parent_id: int,
    name: bytes,
    kind: int,
    started: float,
    ended: float,
    attributes: Iterable[bytes],
    *,
    events: Iterable[bytes] = (),
    state: str = "",
    failed: bool = False,
) -> bytes:
    """Encode field 2 of ScopeSpans: one span.

    parent_id: 0 without a parent; that of a SERVER span is in another process. started, ended:
    Unix seconds. attributes: as from `attribute`. events: as from `event`. state: the `tracestate`.
    """
    ids = (trace_id << 64 | span_id).to_bytes(24)
    fixed = _FIXED.pack(
        *(0x0A, 0x10, ids[:16], 0x12, 0x08, ids[16:]),
        *(0x30, kind, 0x39, int(started * 1e9), 0x41, int(ended * 1e9)),
    )
    tail = b"\x7a\x02\x18\x02" if failed else b""
    if state:
        tail += part(3, state.encode())
    if parent_id:
        tail += b"\x22\x08" + parent_id.to_bytes(8)
        tail += _REMOTE_PARENT if kind == SERVER else _LOCAL_PARENT
    else:
        tail += _LOCAL_PARENT
    return part(2, b"".join((fixed, part(5, name), *attributes, *events, tail)))
