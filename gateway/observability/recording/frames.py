"""The format of a spool file: frames with a length and a checksum, which reveal a torn write.

A file starts with HEAD. A frame is eight bytes, the payload's length and its CRC-32 (both unsigned,
little-endian), and the payload: rows as one MessagePack array.
"""

import struct
from collections.abc import Sequence
from zlib import crc32

import msgspec
from msgspec import Struct

from strowger_gateway.gateway.audit.event import AuditEvent
from strowger_gateway.gateway.observability.recording.rows_from_request import expand_rows
from strowger_gateway.gateway.storage.sql.rows import (
    AttemptRow,
    FeedbackRow,
    RequestBatch,
    RequestRow,
    Row,
    SpoolEntry,
)

HEAD = b"strowger rows 1\n"
ROWS = 256
"""Rows per frame, about."""

_FRAME = struct.Struct("<II")
_encode = msgspec.msgpack.Encoder().encode
_decoder = msgspec.msgpack.Decoder(
    list[RequestBatch | RequestRow | AttemptRow | FeedbackRow | AuditEvent]
)


class Read(Struct, frozen=True, kw_only=True):
    """The content of whole frames.

    size:    their bytes. damaged: the next frame is complete, but its checksum or content is wrong.
    """

    rows: tuple[Row, ...]
    size: int
    damaged: bool = False


def frame(rows: Sequence[SpoolEntry]) -> tuple[bytes, bytes]:
    """Encode rows as one frame: its head and its payload.

    Raises ValueError for a text that is not valid Unicode.
    """
    payload = _encode(rows)
    return _FRAME.pack(len(payload), crc32(payload)), payload


def unpacked(data: bytes, *, limit: int) -> Read:
    """Decode the whole frames at the start of `data`, until there are `limit` rows or more."""
    rows: list[Row] = []
    at = 0
    while len(rows) < limit and at + _FRAME.size <= len(data):
        length, checksum = _FRAME.unpack_from(data, at)
        payload = data[at + _FRAME.size : at + _FRAME.size + length]
        if len(payload) < length:
            break
        try:
            found = expand_rows(_decoder.decode(payload)) if crc32(payload) == checksum else None
        except ValueError:
            found = None
        if not found:
            return Read(rows=tuple(rows), size=at, damaged=True)
        rows += found
        at += _FRAME.size + length
    return Read(rows=tuple(rows), size=at)
