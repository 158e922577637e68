"""Splits a body of `application/vnd.amazon.eventstream`, AWS's binary framing, into messages.

A message: its length and its headers' length (four bytes each, big-endian), a CRC-32 of those
eight bytes, headers, payload, and a CRC-32 of everything before it.
https://smithy.io/2.0/aws/amazon-eventstream.html
"""

import struct
from collections.abc import Mapping
from zlib import crc32

import msgspec

from strowger_gateway.schemas.errors import UpstreamBroken

EXCEPTION = "exception:"
ERROR = "error:"
"""Name prefixes of frames that report a failure: a modelled exception, and any other error."""

MAX_MESSAGE = 16 * 1024 * 1024
"""Bytes of one message; a longer one is an error."""

_PRELUDE = struct.Struct(">III")
_CRC = struct.Struct(">I")
_SHORT = struct.Struct(">H")
_LEAST = _PRELUDE.size + _CRC.size

_WIDTHS: Mapping[int, int] = {0: 0, 1: 0, 2: 1, 3: 2, 4: 4, 5: 8, 8: 8, 9: 16}
"""Header types of a fixed width: true, false, integers, a timestamp, a UUID; in bytes."""

_BYTES, _STRING = 6, 7

_encode = msgspec.json.Encoder().encode


class EventStreamParser:
    """Frames are (event type, payload).

    A message of type `exception` comes out as `exception:TYPE`; one of type `error`, which has no
    payload, as `error:CODE` with `{"message": …}`.
    """

    def __init__(self, upstream: str = "upstream", limit: int = MAX_MESSAGE) -> None:
        self._upstream = upstream
        self._limit = limit
        # The mutable state: bytes of a message that is not complete, and how many it will have.
        self._held = bytearray()
        self._length = 0

    def feed(self, data: bytes) -> list[tuple[str, bytes]]:
        """Return the frames that `data` completes.

        Raises UpstreamBroken for bytes that are not a message, a wrong checksum and a message
        over the limit.
        """
        held = self._held
        held += data
        frames: list[tuple[str, bytes]] = []
        start = 0
        while len(held) - start >= (self._length or _PRELUDE.size):
            if not self._length:
                self._length = self._announced(held, start)
                continue
            end = start + self._length
            frames.append(self._message(bytes(memoryview(held)[start:end])))
            start, self._length = end, 0
        del held[:start]
        return frames

    def close(self) -> list[tuple[str, bytes]]:
        """Raises UpstreamBroken if the body ended inside a message."""
        if self._held:
            raise self._broken("the stream ended inside a message")
        return []

    def _announced(self, held: bytearray, start: int) -> int:
        """Return the length of the message that starts at `start`."""
        length, headers, checksum = _PRELUDE.unpack_from(held, start)
        if crc32(memoryview(held)[start : start + 8]) != checksum:
            raise self._broken("wrong checksum of a message's prelude")
        if length < _LEAST + headers:
            raise self._broken(f"a message of {length} bytes declares {headers} bytes of headers")
        if length > self._limit:
            raise over_limit(f"a message is over {self._limit} bytes", self._upstream)
        return length

    def _message(self, whole: bytes) -> tuple[str, bytes]:
        end = len(whole) - _CRC.size
        if crc32(memoryview(whole)[:end]) != _CRC.unpack_from(whole, end)[0]:
            raise self._broken("wrong checksum of a message")
        headers_end = _PRELUDE.size + _PRELUDE.unpack_from(whole)[1]
        try:
            headers = _texts(whole[_PRELUDE.size : headers_end])
        except (struct.error, IndexError, KeyError, UnicodeDecodeError) as exc:
            raise self._broken("a message's headers cannot be read") from exc
        payload = whole[headers_end:end]
        match headers.get(":message-type"):
            case "event":
                return headers.get(":event-type", ""), payload
            case "exception":
                return EXCEPTION + headers.get(":exception-type", ""), payload
            case "error":
                error = {"message": headers.get(":error-message", "")}
                return ERROR + headers.get(":error-code", ""), _encode(error)
            case kind:
                raise self._broken(f"a message has the unknown type {kind!r}")

    def _broken(self, problem: str) -> UpstreamBroken:
        return UpstreamBroken(f"not an event stream: {problem}", upstream=self._upstream)


def over_limit(problem: str, upstream: str) -> UpstreamBroken:
    """Return the error of a frame over a limit of ours: no evidence about the backend."""
    error = UpstreamBroken(problem, upstream=upstream)
    error.counts = False
    return error


def _texts(block: bytes) -> dict[str, str]:
    """Return the headers with text values. Raises if the block is cut or has unknown types."""
    found: dict[str, str] = {}
    place = 0
    while place < len(block):
        name_end = place + 1 + block[place]
        name, kind = block[place + 1 : name_end], block[name_end]
        place = name_end + 1
        if kind in (_BYTES, _STRING):
            (width,) = _SHORT.unpack_from(block, place)
            place += _SHORT.size
        else:
            width = _WIDTHS[kind]
        value = block[place : place + width]
        if len(value) < width:
            raise IndexError("a header's value is truncated")
        if kind == _STRING:
            found[name.decode()] = value.decode()
        place += width
    return found
