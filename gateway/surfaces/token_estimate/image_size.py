"""The size of an image in pixels, from the first bytes of a `data:` URI.

https://www.w3.org/TR/png-3/#11IHDR
https://www.w3.org/Graphics/GIF/spec-gif89a.txt
https://www.w3.org/Graphics/JPEG/itu-t81.pdf
https://developers.google.com/speed/webp/docs/riff_container
"""

import base64
import binascii
from struct import error, unpack_from
from typing import Final

HEAD: Final = 256 * 1024
"""Characters of base64 that are read: a JPEG may have a thumbnail and a profile before its size."""

_FRAMES: Final = frozenset(range(0xC0, 0xD0)) - {0xC4, 0xC8, 0xCC}
"""Markers of a JPEG's frame, which has the size."""


def image_size(url: str) -> tuple[int, int] | None:
    """Return width and height; `None` if the URI is not base64, or its type is not known."""
    head, comma, encoded = url.partition(",")
    if not comma or not head.endswith("base64"):
        return None
    try:
        data = base64.b64decode(encoded[:HEAD])
        return _size(data)
    except (binascii.Error, ValueError, error, IndexError):
        return None


def _size(data: bytes) -> tuple[int, int] | None:
    if data.startswith(b"\x89PNG\r\n\x1a\n"):
        return unpack_from(">II", data, 16)
    if data.startswith((b"GIF87a", b"GIF89a")):
        return unpack_from("<HH", data, 6)
    if data.startswith(b"\xff\xd8"):
        return _jpegs(data)
    if data[:4] == b"RIFF" and data[8:12] == b"WEBP":
        return _webps(data)
    return None


def _jpegs(data: bytes) -> tuple[int, int] | None:
    at = 2
    while at + 9 < len(data):
        if data[at] != 0xFF:
            return None
        marker = data[at + 1]
        if marker in _FRAMES:
            height, width = unpack_from(">HH", data, at + 5)
            return width, height
        at += 2 + int.from_bytes(data[at + 2 : at + 4])
    return None


def _webps(data: bytes) -> tuple[int, int] | None:
    kind = data[12:16]
    if kind == b"VP8X":
        return int.from_bytes(data[24:27], "little") + 1, int.from_bytes(data[27:30], "little") + 1
    if kind == b"VP8L":
        bits = int.from_bytes(data[21:25], "little")
        return (bits & 0x3FFF) + 1, (bits >> 14 & 0x3FFF) + 1
    if kind == b"VP8 ":
        width, height = unpack_from("<HH", data, 26)
        return width & 0x3FFF, height & 0x3FFF
    return None
