"""Encode spans as OTLP messages.

Field numbers: opentelemetry/proto/trace/v1/trace.proto,
https://github.com/open-telemetry/opentelemetry-proto/tree/v1.7.0
"""

from collections.abc import Iterable
from functools import lru_cache
from struct import pack
from typing import Final

from gateway.otlp.protobuf import Value, key_value, part

SERVER: Final = 2
CLIENT: Final = 3

_LOCAL_PARENT: Final = b"\x85\x01" + pack("<I", 0x101)
_REMOTE_PARENT: Final = b"\x85\x01" + pack("<I", 0x301)
"""Field 16, flags: the trace is sampled; it is known whether the parent is in another process."""


def attribute(key: str, value: Value) -> bytes:
    """Encode field 9 of a span: one attribute."""
    return part(9, key_value(key, value))


known_attribute = lru_cache(maxsize=4096)(attribute)
"""`attribute`, for values of which there are few."""


def event(name: bytes, at: float, attributes: Iterable[bytes] = ()) -> bytes:
    """Encode field 11 of a span: one event. at: Unix seconds.

    attributes: KeyValues, each as field 3.
    """
    return part(11, b"\x09" + pack("<Q", int(at * 1e9)) + part(2, name) + b"".join(attributes))


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
    events: Iterable[bytes] = (),
    state: str = "",
    failed: bool = False,
) -> bytes:
    """Encode field 2 of ScopeSpans: one span.

    The parent of a SERVER span is in another process. started, ended: Unix seconds.
    attributes: as from `attribute`. events: as from `event`. state: the `tracestate`.
    """
    head = b"\x0a\x10" + trace_id + b"\x12\x08" + span_id
    if state:
        head += part(3, state.encode())
    if parent_id:
        head += b"\x22\x08" + parent_id
    times = pack("<BBBQBQ", 0x30, kind, 0x39, int(started * 1e9), 0x41, int(ended * 1e9))
    tail = b"\x7a\x02\x18\x02" if failed else b""
    tail += _REMOTE_PARENT if parent_id and kind == SERVER else _LOCAL_PARENT
    return part(2, b"".join((head, part(5, name), times, *attributes, *events, tail)))
