"""What a child process is asked to do, and what it answers: frames on its stdin and stdout.

A frame is its length, four bytes, big-endian, and a msgpack map, as between worker and engine.
"""

from typing import BinaryIO

import msgspec
from msgspec import Struct

HEAD_BYTES = 4


class Load(Struct, frozen=True, kw_only=True, tag="load"):
    """Remember a tokenizer under `key`. tokenizer: the content of a tokenizer.json. No answer."""

    key: str
    tokenizer: str


class Encode(Struct, frozen=True, kw_only=True, tag="encode"):
    """Turn text into tokens. special: add what the model expects around a text.

    most: tokens that are sent back at most, the last ones; `None`: all.
    """

    key: str
    text: str
    special: bool
    most: int | None


class Part(Struct, frozen=True, kw_only=True):
    """Something that the client wrote. field: its name in the request. lark: as a grammar."""

    field: str
    lark: str


class Guide(Struct, frozen=True, kw_only=True):
    """What an answer must match, not compiled.

    lark:  the rules, `start` first; `client` may be used as `@client`.
    client: a grammar that the client wrote; gbnf: its syntax is GBNF and not lark's.
    parts: what the client wrote, each by itself, to tell which of them is at fault.
    """

    lark: str
    parts: tuple[Part, ...]
    client: str = ""
    gbnf: bool = False


class Compile(Struct, frozen=True, kw_only=True, tag="compile"):
    """Find out whether a guide compiles. width: tokens of the mask. ends: the end tokens."""

    key: str
    guide: Guide
    width: int
    ends: tuple[int, ...]


class Encoded(Struct, frozen=True, kw_only=True, tag="encoded"):
    """ids: unsigned 32-bit, native order. count: of all tokens."""

    ids: bytes
    count: int


class Compiled(Struct, frozen=True, kw_only=True, tag="compiled"):
    """client: the guide's own grammar in lark. problem: "" where it compiles; field: whose."""

    client: str = ""
    problem: str = ""
    field: str = ""


class Broken(Struct, frozen=True, kw_only=True, tag="broken"):
    """The task raised an exception that no other answer stands for."""

    reason: str


class CpuLimit(Struct, frozen=True, kw_only=True, tag="limits"):
    """For the task that follows. cpu_s: CPU seconds; a child that needs more is killed."""

    cpu_s: int


Task = Encode | Compile
ToChild = Load | CpuLimit | Encode | Compile
Reply = Encoded | Compiled | Broken

_encode = msgspec.msgpack.Encoder().encode
decode_message: msgspec.msgpack.Decoder[ToChild] = msgspec.msgpack.Decoder(ToChild)
decode_reply: msgspec.msgpack.Decoder[Reply] = msgspec.msgpack.Decoder(Reply)


def write(stream: BinaryIO, message: ToChild | Reply) -> None:
    """Raises OSError where the other side is gone."""
    body = _encode(message)
    stream.write(len(body).to_bytes(HEAD_BYTES, "big"))
    stream.write(body)
    stream.flush()


def read(stream: BinaryIO) -> bytes:
    """The next frame's body; b"" at the end, be it inside a frame."""
    head = stream.read(HEAD_BYTES)
    if len(head) < HEAD_BYTES:
        return b""
    length = int.from_bytes(head, "big")
    body = stream.read(length)
    return body if len(body) == length else b""
