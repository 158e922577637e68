"""Frames of a Messages stream: one event per frame, with its type as the event's name.

JSON that is given to them is without line breaks, which would end a frame: `one_line` removes a
backend's own.

https://docs.anthropic.com/en/docs/build-with-claude/streaming
"""

from collections.abc import Callable
from typing import Final

import msgspec

encode: Final[Callable[[object], bytes]] = msgspec.json.Encoder().encode

PING: Final = b'event: ping\ndata: {"type":"ping"}\n\n'
STOP: Final = b'event: message_stop\ndata: {"type":"message_stop"}\n\n'
ERROR: Final = b"event: error\n"
"""The line before the data of a failure."""

TEXT_END: Final = b"}}\n\n"
"""Ends a frame that `delta_start` begins."""


def message_start(message: bytes) -> bytes:
    """message: the answer's head, without content."""
    return b'event: message_start\ndata: {"type":"message_start","message":%b}\n\n' % message


def block_start(index: int, block: bytes) -> bytes:
    return (
        b"event: content_block_start\n"
        b'data: {"type":"content_block_start","index":%d,"content_block":%b}\n\n'
    ) % (index, block)


def block_delta(index: int, delta: bytes) -> bytes:
    return (
        b"event: content_block_delta\n"
        b'data: {"type":"content_block_delta","index":%d,"delta":%b}\n\n'
    ) % (index, delta)


def delta_start(index: int, kind: bytes, field: bytes) -> bytes:
    """Return the bytes of a delta before its text, which `TEXT_END` ends."""
    return (
        b"event: content_block_delta\n"
        b'data: {"type":"content_block_delta","index":%d,"delta":{"type":"%b","%b":'
    ) % (index, kind, field)


def block_stop(index: int) -> bytes:
    return b'event: content_block_stop\ndata: {"type":"content_block_stop","index":%d}\n\n' % index


def message_delta(delta: bytes, more: bytes, usage: bytes) -> bytes:
    """more: members next to `delta`, each after a comma."""
    return b'event: message_delta\ndata: {"type":"message_delta","delta":%b%b,"usage":%b}\n\n' % (
        delta,
        more,
        usage,
    )
