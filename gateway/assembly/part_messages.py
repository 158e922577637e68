"""How the messages of parts are encoded between the processes of a gateway."""

from typing import Any, TypeVar

import msgspec

from strowger_gateway.schemas.secret import Secret

T = TypeVar("T")


def plain(value: object) -> object:
    """Encode what msgspec does not know. Sockets between our own processes carry secrets."""
    if isinstance(value, Secret):
        return value.reveal()
    raise NotImplementedError(f"{type(value)} cannot be sent between processes")


def secret(kind: type, value: object) -> object:
    """The reverse of `plain`."""
    if kind is Secret and isinstance(value, str):
        return Secret(value)
    raise NotImplementedError(f"{kind} cannot be sent between processes")


_encoder = msgspec.msgpack.Encoder(enc_hook=plain)


def packed(value: object) -> bytes:
    """Encode a message, or the body of an answer."""
    return _encoder.encode(value)


def unpacked(body: bytes, kind: type[T]) -> T:
    """Decode what is sent rarely."""
    return msgspec.msgpack.decode(body, type=kind, dec_hook=secret)


class PartDecoder:
    """Decodes the messages of one direction; each part's decoder is made with its first message."""

    def __init__(self) -> None:
        self._made: dict[str, msgspec.msgpack.Decoder[Any]] = {}

    def decode(self, part: str, body: bytes, receives: Any) -> Any:
        """receives: the type that the side of the part declares."""
        decoder = self._made.get(part)
        if decoder is None:
            decoder = msgspec.msgpack.Decoder(receives, dec_hook=secret)
            self._made[part] = decoder
        return decoder.decode(body)
