"""Requests of the attacks, as bytes, and their exchange over a socket."""

import asyncio
import json
import re
import time
from collections.abc import Sequence
from contextlib import suppress
from typing import Final

from msgspec import Struct

CHAT: Final = "/v1/chat/completions"
MB: Final = 1_000_000
_TEXT: Final = re.compile(rb'"content": *"[^"]')


def chat(content: object = "hi", model: str = "chat", **fields: object) -> bytes:
    messages = [{"role": "user", "content": content}]
    return json.dumps({"model": model, "messages": messages, "max_tokens": 4, **fields}).encode()


PLAIN: Final = chat("2 + 2")
_CHOICE: Final = {"type": "grammar", "syntax": "lark", "definition": 'start: "yes" | "no"'}
GUIDED: Final = chat("2 + 2", response_format=_CHOICE)


def raw(key: str, body: bytes, line: str = f"POST {CHAT}", extra: str = "") -> bytes:
    """A complete request with its content-length."""
    return (
        f"{line} HTTP/1.1\r\nhost: 127.0.0.1\r\nauthorization: Bearer {key}\r\n"
        f"content-type: application/json\r\ncontent-length: {len(body)}\r\n{extra}\r\n"
    ).encode() + body


def attack(body: bytes, line: str = f"POST {CHAT}", extra: str = "") -> bytes:
    return raw("attacker-key", body, line, extra)


class Answer(Struct, kw_only=True):
    """What came back. first_s: seconds to the first text of a stream, 0 if it is none."""

    status: int
    headers: dict[str, str]
    body: bytes = b""
    first_s: float = 0.0


async def send(port: int, key: str, body: bytes, line: str = f"POST {CHAT}") -> Answer:
    """Return a whole answer. Raises OSError, IncompleteReadError."""
    return await exchange(port, [raw(key, body, line)])


async def exchange(port: int, pieces: Sequence[bytes]) -> Answer:
    """Send the pieces 0.01 s apart, and read the whole answer."""
    started = time.perf_counter()
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        writer.write(pieces[0])
        for piece in pieces[1:]:
            await asyncio.sleep(0.01)
            if reader.at_eof() or writer.transport.is_closing():
                break
            writer.write(piece)
            with suppress(ConnectionError):
                await writer.drain()
        first, *fields = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
        headers = {
            name.lower(): value.strip()
            for name, _, value in (field.partition(":") for field in fields)
        }
        answer = Answer(status=int(first.split()[1]), headers=headers)
        if "content-length" in headers:
            answer.body = await reader.readexactly(int(headers["content-length"]))
        elif "transfer-encoding" in headers:
            await _read_stream(reader, answer, started)
        return answer
    finally:
        writer.close()


async def _read_stream(reader: asyncio.StreamReader, answer: Answer, started: float) -> None:
    """Read chunks to the end, without keeping them."""
    while size := int(await reader.readline(), 16):
        chunk = await reader.readexactly(size + 2)
        if not answer.first_s and _TEXT.search(chunk):
            answer.first_s = time.perf_counter() - started
    await reader.readline()
