"""How the messages of parts are encoded between the processes of a gateway."""

from typing import Any, Final, TypeVar

import msgspec

from strowger_gateway.gateway.assembly.parts import PARTS
from strowger_gateway.gateway.config.parts.encoding import from_plain, to_plain

T = TypeVar("T")

revived: Final = from_plain(PARTS)
"""Decodes what msgspec does not know: secrets, and the sections of parts."""

_encoder = msgspec.msgpack.Encoder(enc_hook=to_plain)


def packed(value: object) -> bytes:
    """Encode a message, or the body of an answer."""
    return _encoder.encode(value)


def unpacked(body: bytes, kind: type[T]) -> T:
    """Decode what is sent rarely."""
    return msgspec.msgpack.decode(body, type=kind, dec_hook=revived)


class PartDecoder:
    """Decodes the messages of one direction; each part's decoder is made with its first message."""

    def __init__(self) -> None:
        self._made: dict[str, msgspec.msgpack.Decoder[Any]] = {}

    def decode(self, part: str, body: bytes, receives: Any) -> Any:
        """receives: the type that the side of the part declares."""
        decoder = self._made.get(part)
        if decoder is None:
            decoder = msgspec.msgpack.Decoder(receives, dec_hook=revived)
            self._made[part] = decoder
        return decoder.decode(body)
