"""The binary tensor extension: the end of a body's JSON, and the bytes of each tensor after it.

https://github.com/triton-inference-server/server/blob/main/docs/protocol/extension_binary_data.md
"""

import zlib
from collections.abc import Iterable
from typing import Final

from strowger_gateway.gateway.surfaces.base import Inbound
from strowger_gateway.schemas.errors import BodyTooLarge, InvalidRequest

HEADER: Final = b"inference-header-content-length"
OCTETS: Final = b"application/octet-stream"

MAX_INFLATED: Final = 32 << 20
"""Maximum size of a compressed body after decompression, in bytes."""

_ANY_ZLIB: Final = 47
"""zlib's window bits that recognise both gzip and deflate."""


class BinaryTail:
    """The bytes after the JSON; tensors take their bytes from it in the order of the JSON."""

    def __init__(self, data: memoryview) -> None:
        self._data = data

    def take(self, name: str, size: int) -> bytes:
        """Return the next `size` bytes, the data of tensor `name`. Raises InvalidRequest."""
        if not 0 <= size <= len(self._data):
            raise InvalidRequest(
                f"{name}: binary_data_size is {size}, but {len(self._data)} bytes are left "
                "in the body",
                param=name,
            )
        data, self._data = bytes(self._data[:size]), self._data[size:]
        return data

    def close(self) -> None:
        """Raise InvalidRequest for bytes that belong to no tensor."""
        if len(self._data):
            raise InvalidRequest(
                f"the body has {len(self._data)} bytes after those of its tensors; "
                "binary_data_size gives the size of each tensor"
            )


def split_body(inbound: Inbound) -> tuple[bytes, BinaryTail]:
    """Split a body into its JSON and the bytes after it. Raises InvalidRequest, BodyTooLarge."""
    body = decompress(inbound)
    given = _header(inbound.headers, HEADER)
    if not given:
        return body, BinaryTail(memoryview(b""))
    if not given.isdigit() or len(given) > 18 or int(given) > len(body):
        raise InvalidRequest(
            f"inference-header-content-length: {given.decode('latin-1')!r} must be the JSON's "
            f"length, at most the body's {len(body)} bytes",
            param="inference-header-content-length",
        )
    length = int(given)
    return body[:length], BinaryTail(memoryview(body)[length:])


def json_length(inbound: Inbound) -> int:
    """Return how many bytes of a body without content-encoding are JSON; all without the header."""
    given = _header(inbound.headers, HEADER)
    size = len(inbound.body)
    return min(int(given), size) if given.isdigit() and len(given) < 19 else size


def decompress(inbound: Inbound) -> bytes:
    """Return the body without its content-encoding. Raises InvalidRequest, BodyTooLarge."""
    encoding = _header(inbound.headers, b"content-encoding").strip().lower()
    if encoding in (b"", b"identity"):
        return inbound.body
    if encoding not in (b"gzip", b"deflate"):
        raise InvalidRequest(
            f"content-encoding: {encoding.decode('latin-1')!r} is not supported; "
            "send gzip, deflate or none",
            param="content-encoding",
        )
    reader = zlib.decompressobj(_ANY_ZLIB)
    try:
        body = reader.decompress(inbound.body, MAX_INFLATED)
    except zlib.error as exc:
        raise InvalidRequest(
            f"the body is not valid {encoding.decode()}, its content-encoding: {exc}",
            param="content-encoding",
        ) from exc
    if reader.unconsumed_tail:
        raise BodyTooLarge(f"the decompressed body is larger than {MAX_INFLATED} bytes")
    if not reader.eof or reader.unused_data:
        raise InvalidRequest(
            f"the {encoding.decode()} data of the body is truncated or has trailing bytes",
            param="content-encoding",
        )
    return body


def joined(json: bytes, tails: Iterable[bytes]) -> bytes:
    return b"".join((json, *tails))


def _header(headers: Iterable[tuple[bytes, bytes]], wanted: bytes) -> bytes:
    for name, value in headers:
        if name == wanted:
            return value
    return b""
