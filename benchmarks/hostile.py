"""The attacks of `benchmarks.isolation`, each a list of byte sequences to send concurrently.

python -m benchmarks.hostile NAME PORT: builds the attack, prints "ready", waits for a line on
standard input, sends everything and prints a line with the number of answers per status and the
time of the last one. Connections are closed after a minute.
"""

import asyncio
import gzip
import json
import sys
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Final

GIVE_UP_S: Final = 60.0
_CHAT: Final = "/v1/chat/completions"
_MB: Final = 1_000_000
_TRICK: Final = r"""start: A
A: /(.*a.{16}.*)|q1/ & ~/(.*b.{16}.*)/"""


def chat(content: object = "hi", model: str = "chat", **fields: object) -> bytes:
    messages = [{"role": "user", "content": content}]
    return json.dumps({"model": model, "messages": messages, "max_tokens": 4, **fields}).encode()


PLAIN: Final = chat("2 + 2")
_CHOICE: Final = {"type": "grammar", "syntax": "lark", "definition": 'start: "yes" | "no"'}
GUIDED: Final = chat("2 + 2", response_format=_CHOICE)


def raw(key: str, body: bytes, line: str = f"POST {_CHAT}", extra: str = "") -> bytes:
    """A complete request with its content-length."""
    return (
        f"{line} HTTP/1.1\r\nhost: 127.0.0.1\r\nauthorization: Bearer {key}\r\n"
        f"content-type: application/json\r\ncontent-length: {len(body)}\r\n{extra}\r\n"
    ).encode() + body


def attack(body: bytes, line: str = f"POST {_CHAT}", extra: str = "") -> bytes:
    return raw("attacker-key", body, line, extra)


async def send(
    port: int, key: str, body: bytes, line: str = f"POST {_CHAT}"
) -> tuple[int, dict[str, str]]:
    """Status and headers of one answer. Raises OSError, IncompleteReadError."""
    return await exchange(port, [raw(key, body, line)])


async def exchange(port: int, pieces: Sequence[bytes]) -> tuple[int, dict[str, str]]:
    """Send the pieces 0.01 s apart, and read the whole answer."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        writer.write(pieces[0])
        for piece in pieces[1:]:
            await asyncio.sleep(0.01)
            if reader.at_eof():
                break
            writer.write(piece)
            with suppress(ConnectionError):
                await writer.drain()
        first, *fields = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
        headers = {
            name.lower(): value.strip()
            for name, _, value in (field.partition(":") for field in fields)
        }
        if "content-length" in headers:
            await reader.readexactly(int(headers["content-length"]))
        return int(first.split()[1]), headers
    finally:
        writer.close()


def _nested_arguments() -> bytes:
    arguments = '{"a":' * 500 + "1" + "}" * 500
    call = {"id": "c", "type": "function", "function": {"name": "f", "arguments": arguments}}
    messages = [
        {"role": "user", "content": "hi"},
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "c", "content": "1"},
    ]
    return json.dumps({"model": "chat", "messages": messages, "max_tokens": 4}).encode()


def _wide_schema() -> bytes:
    kinds = [
        {
            "type": "object",
            "properties": {f"k{n}": {"type": "string", "pattern": f"^[a-z]{{{n % 7 + 1}}}x+$"}},
            "required": [f"k{n}"],
        }
        for n in range(200)
    ]
    form = {"type": "json_schema", "json_schema": {"name": "s", "schema": {"oneOf": kinds}}}
    return chat(response_format=form, max_tokens=64)


def _gzip_bodies(megabytes: int) -> list[bytes]:
    text = "a" * (megabytes * _MB)
    tensor = {"name": "text_input", "datatype": "BYTES", "shape": [1], "data": [text]}
    body = gzip.compress(json.dumps({"inputs": [tensor]}).encode(), 9)
    line = "POST /v2/models/chat/infer"
    return [attack(body, line, "content-encoding: gzip\r\n")] * 16


_OPEN: Final = (
    f"POST {_CHAT} HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-type: application/json\r\n"
    "transfer-encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n"
).encode()


def _many_trailers() -> list[Sequence[bytes]]:
    piece = b"a:b\r\n" * 200_000
    return [[_OPEN, *[piece] * 40, b"\r\n"]]


def _one_trailer() -> list[Sequence[bytes]]:
    return [[_OPEN + b"x: ", *[b"a" * _MB] * 60, b"\r\n\r\n"]]


def _slow_bodies() -> list[Sequence[bytes]]:
    head = attack(b"x" * 1000)[:-1000]
    return [[head, *[b" "] * 800]] * 60


def _repeated(count: int, value: str) -> list[str]:
    return [f"{value}{n}" for n in range(count)]


def _fields(count: int) -> bytes:
    extra = ",".join(f'"x{n}":1' for n in range(count))
    return chat()[:-1] + b"," + extra.encode() + b"}"


def _messages(count: int) -> bytes:
    one = '{"role":"user","content":"a"}'
    return f'{{"model":"chat","messages":[{",".join([one] * count)}]}}'.encode()


ATTACKS: Final[Mapping[str, Callable[[], Sequence[bytes | Sequence[bytes]]]]] = {
    "prompt-19mb": lambda: [attack(chat("word " * (19 * _MB // 5)))],
    "no-blanks-15mb": lambda: [attack(chat("x" * (15 * _MB)))],
    "prompts-6x8mb": lambda: [attack(chat("word " * (8 * _MB // 5)))] * 6,
    "bad-words-300k": lambda: [attack(chat(bad_words=_repeated(300_000, "w")))],
    "specials-1m": lambda: [attack(chat("<|end|>" * _MB))],
    "stops-500k": lambda: [attack(chat(stop=_repeated(500_000, "s")))],
    "bridge-4mb": lambda: [attack(chat("word " * (4 * _MB // 5), "bridged"))] * 4,
    "gzip-16x29mb": lambda: _gzip_bodies(29),
    "gzip-16x15mb": lambda: _gzip_bodies(15),
    "trailers-40mb": _many_trailers,
    "trailer-60mb": _one_trailer,
    "nested-arguments": lambda: [attack(_nested_arguments())] * 20,
    "wide-schema": lambda: [attack(_wide_schema())] * 20,
    "grammars": lambda: (
        [attack(chat(response_format={"type": "grammar", "syntax": "lark", "definition": _TRICK}))]
        * 10
    ),
    "fields-900k": lambda: [attack(_fields(900_000))],
    "messages-600k": lambda: [attack(_messages(600_000))],
    "logit-bias-1m": lambda: [attack(chat(logit_bias={str(n): 1 for n in range(_MB)}))],
    "slow-bodies-60": _slow_bodies,
}


async def _one(port: int, pieces: bytes | Sequence[bytes], found: Counter[str]) -> None:
    try:
        whole = [pieces] if isinstance(pieces, bytes) else pieces
        status, _ = await asyncio.wait_for(exchange(port, whole), GIVE_UP_S)
    except (OSError, TimeoutError, asyncio.IncompleteReadError) as exc:
        found[
            "cut off" if isinstance(exc, asyncio.IncompleteReadError) else type(exc).__name__
        ] += 1
    else:
        found[str(status)] += 1


async def _all(port: int, requests: Sequence[bytes | Sequence[bytes]]) -> str:
    found: Counter[str] = Counter()
    started = time.perf_counter()
    await asyncio.gather(*(_one(port, request, found) for request in requests))
    took = time.perf_counter() - started
    return ", ".join(f"{n}x {what}" for what, n in found.most_common()) + f" in {took:.1f} s"


def main() -> None:
    _, name, port = sys.argv
    requests = ATTACKS[name]()
    print("ready", flush=True)
    sys.stdin.readline()
    print(asyncio.run(_all(int(port), requests)), flush=True)


if __name__ == "__main__":
    main()
