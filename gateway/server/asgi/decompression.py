"""Decompress bodies with a content-encoding, piece by piece, within the limits of all bodies."""

import asyncio
import zlib
from typing import Final

from strowger_gateway.gateway.server.asgi.request_body import BodyMemory
from strowger_gateway.schemas.errors import BodyTooLarge, InvalidRequest

ENCODINGS: Final = (b"gzip", b"deflate")

_ANY_ZLIB: Final = 47
"""zlib's window bits that recognise both gzip and deflate."""

_PIECE: Final = 256 * 1024
"""Bytes per piece, decompressed in less than a millisecond; other requests run in between."""


async def inflate(body: bytes, encoding: bytes, limit: int, memory: BodyMemory) -> bytes:
    """Return the body without its encoding (one of ENCODINGS); claim memory piece by piece.

    The caller releases the memory. Raises BodyTooLarge over `limit` bytes, Unavailable if no
    memory is left, and InvalidRequest.
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
                raise BodyTooLarge(f"the decompressed body is larger than {limit} bytes")
            memory.buffer(len(piece))
            pieces.append(piece)
            await asyncio.sleep(0)
    except zlib.error as exc:
        raise InvalidRequest(
            f"the body is not valid {encoding.decode()}, its content-encoding: {exc}",
            param="content-encoding",
        ) from exc
    if not reader.eof or reader.unused_data:
        raise InvalidRequest(
            f"the {encoding.decode()} data of the body is truncated or has trailing bytes",
            param="content-encoding",
        )
    return b"".join(pieces)
