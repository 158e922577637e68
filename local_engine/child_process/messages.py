"""Messages to and from a child process: frames on its stdin and stdout.

A frame is its length (four bytes, big-endian) and a msgpack map, as between worker and engine.
"""

from typing import BinaryIO

import msgspec
from msgspec import Struct

HEAD_BYTES = 4


class Load(Struct, frozen=True, kw_only=True, tag="load"):
    """Store a tokenizer under `key`. tokenizer: the content of a tokenizer.json. No reply."""

    key: str
    tokenizer: str


class Encode(Struct, frozen=True, kw_only=True, tag="encode"):
    """Turn text into tokens. special: add the tokens that the model expects around a text.

    most: return at most this many tokens, the last ones; `None`: all. limit: a text that has more
    tokens is not needed; `None`: unlimited.
    """

    key: str
    text: str
    special: bool
    most: int | None
    limit: int | None = None


class Part(Struct, frozen=True, kw_only=True):
    """A part written by the client. field: its name in the request. lark: as a grammar."""

    field: str
    lark: str


class Guide(Struct, frozen=True, kw_only=True):
    """The grammar that an answer must match, not yet compiled.

    lark:  the rules, `start` first; `client` may be used as `@client`.
    client: a grammar that the client wrote; gbnf: its syntax is GBNF and not lark's.
    parts: the client's parts, each on its own, to find the one with the error.
    """

    lark: str
    parts: tuple[Part, ...]
    client: str = ""
    gbnf: bool = False


class Compile(Struct, frozen=True, kw_only=True, tag="compile"):
    """Check whether a guide compiles. width: tokens of the mask. ends: the end tokens."""

    key: str
    guide: Guide
    width: int
    ends: tuple[int, ...]


class Encoded(Struct, frozen=True, kw_only=True, tag="encoded"):
    """ids: unsigned 32-bit, native order. count: of all tokens.

    If the text has more tokens than the task's limit, there may be no ids, and `count` may be of a
    part of the text that has more already.
    """

    ids: bytes
    count: int


class Compiled(Struct, frozen=True, kw_only=True, tag="compiled"):
    """client: the client's grammar in lark. problem: "" if it compiles; field: the one at fault."""

    client: str = ""
    problem: str = ""
    field: str = ""


class Broken(Struct, frozen=True, kw_only=True, tag="broken"):
    """The task raised an exception that no other reply covers."""

    reason: str


class CpuLimit(Struct, frozen=True, kw_only=True, tag="limits"):
    """Limit of the next task. cpu_s: CPU seconds; a child that needs more is killed."""

    cpu_s: int


Task = Encode | Compile
ToChild = Load | CpuLimit | Encode | Compile
Reply = Encoded | Compiled | Broken

_encode = msgspec.msgpack.Encoder().encode
decode_message: msgspec.msgpack.Decoder[ToChild] = msgspec.msgpack.Decoder(ToChild)
decode_reply: msgspec.msgpack.Decoder[Reply] = msgspec.msgpack.Decoder(Reply)


def write(stream: BinaryIO, message: ToChild | Reply) -> None:
    """Write one frame. Raises OSError if the other side is gone."""
    body = _encode(message)
    stream.write(len(body).to_bytes(HEAD_BYTES, "big"))
    stream.write(body)
    stream.flush()


def read(stream: BinaryIO) -> bytes:
    """Return the next frame's body; b"" at the end of the stream, even inside a frame."""
    head = stream.read(HEAD_BYTES)
    if len(head) < HEAD_BYTES:
        return b""
    length = int.from_bytes(head, "big")
    body = stream.read(length)
    return body if len(body) == length else b""
