"""Bodies with a content-encoding, unfolded in pieces within the limits of all bodies."""

import asyncio
import zlib
from typing import Final

from gateway.asgi.request_body import Memory
from schemas.errors import BodyTooLarge, InvalidRequest

ENCODINGS: Final = (b"gzip", b"deflate")

_ANY_ZLIB: Final = 47
"""zlib's window bits that recognise both gzip and deflate."""

_PIECE: Final = 256 * 1024
"""Unfolded in less than a millisecond; then other requests go on."""


async def inflate(body: bytes, encoding: bytes, limit: int, memory: Memory) -> bytes:
    """The body without its encoding, which is one of ENCODINGS; claims memory piece by piece.

    The caller gives the memory back. Raises BodyTooLarge over `limit` bytes, Unavailable where
    there is no memory for them, and InvalidRequest.
    """
    reader = zlib.decompressobj(_ANY_ZLIB)
    pieces: list[bytes] = []
    size = 0
    rest = body
    try:
        while rest and not reader.eof:
            piece = reader.decompress(rest, _PIECE)
            rest = reader.unconsumed_tail
            size += len(piece)
            if size > limit:
                raise BodyTooLarge(f"the body unfolds to more than {limit} bytes")
            memory.buffer(len(piece))
            pieces.append(piece)
            await asyncio.sleep(0)
    except zlib.error as exc:
        raise InvalidRequest(
            f"the body is not {encoding.decode()} as its content-encoding says: {exc}",
            param="content-encoding",
        ) from exc
    if not reader.eof or reader.unused_data:
        raise InvalidRequest(
            f"the body's {encoding.decode()} is cut short, or something follows it",
            param="content-encoding",
        )
    return b"".join(pieces)
