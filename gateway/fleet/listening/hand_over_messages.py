"""What a gateway and its successor send each other, one JSON object per line.

The two may be different versions: fields may be added, with defaults, and none change their
meaning.
"""

from typing import Final

import msgspec
from msgspec import Struct

VARIABLE: Final = "STROWGER_HAND_OVER"
"""The environment variable with the file descriptor of the successor's end of the socket pair."""


class Offer(Struct, frozen=True, kw_only=True, tag=True):
    """The first message, from the old gateway.

    sockets: file descriptors of its listening sockets, which the new process inherits. place, kept:
    see Listener. access_log: the path of the lock for lines of the access log. surfaces: those that
    clients have used.
    """

    sockets: tuple[int, ...]
    place: str
    kept: bool
    access_log: str = ""
    surfaces: tuple[str, ...] = ()


class Ready(Struct, frozen=True, kw_only=True, tag=True):
    """The new gateway can serve. takes: it uses the listening sockets of the old one."""

    takes: bool


class Accept(Struct, frozen=True, kw_only=True, tag=True):
    """The old gateway accepts no more connections.

    parts: what parts of the new gateway need to know, by their names.
    """

    parts: dict[str, msgspec.Raw] = {}


class Freed(Struct, frozen=True, kw_only=True, tag=True):
    """The old gateway has ended what may run only once: the import, and jobs of experiments."""


FromOld = Offer | Accept | Freed

_encoder = msgspec.json.Encoder()
from_old: msgspec.json.Decoder[FromOld] = msgspec.json.Decoder(FromOld)
from_new: msgspec.json.Decoder[Ready] = msgspec.json.Decoder(Ready)


def line_of(message: FromOld | Ready) -> bytes:
    """Encode a message with the end of its line."""
    return _encoder.encode(message) + b"\n"
