"""Bodies and heads that cost more to read than to send: the attacks by their form."""

import gzip
import json
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from benchmarks.isolation.requests import CHAT, MB, attack, chat

Pieces = bytes | Sequence[bytes]
"""A request, or its parts, which are sent one after the other."""

_TRICK: Final = r"""start: A
A: /(.*a.{16}.*)|q1/ & ~/(.*b.{16}.*)/"""


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
    text = "a" * (megabytes * MB)
    tensor = {"name": "text_input", "datatype": "BYTES", "shape": [1], "data": [text]}
    body = gzip.compress(json.dumps({"inputs": [tensor]}).encode(), 9)
    line = "POST /v2/models/chat/infer"
    return [attack(body, line, "content-encoding: gzip\r\n")] * 16


_OPEN: Final = (
    f"POST {CHAT} HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-type: application/json\r\n"
    "transfer-encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n"
).encode()


def _many_trailers() -> list[Sequence[bytes]]:
    piece = b"a:b\r\n" * 200_000
    return [[_OPEN, *[piece] * 40, b"\r\n"]]


def _one_trailer() -> list[Sequence[bytes]]:
    return [[_OPEN + b"x: ", *[b"a" * MB] * 60, b"\r\n\r\n"]]


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


FORMS: Final[Mapping[str, Callable[[], Sequence[Pieces]]]] = {
    "prompt-19mb": lambda: [attack(chat("word " * (19 * MB // 5)))],
    "no-blanks-15mb": lambda: [attack(chat("x" * (15 * MB)))],
    "prompts-6x8mb": lambda: [attack(chat("word " * (8 * MB // 5)))] * 6,
    "bad-words-300k": lambda: [attack(chat(bad_words=_repeated(300_000, "w")))],
    "specials-1m": lambda: [attack(chat("<|end|>" * MB))],
    "stops-500k": lambda: [attack(chat(stop=_repeated(500_000, "s")))],
    "bridge-4mb": lambda: [attack(chat("word " * (4 * MB // 5), "bridged"))] * 4,
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
    "logit-bias-1m": lambda: [attack(chat(logit_bias={str(n): 1 for n in range(MB)}))],
    "slow-bodies-60": _slow_bodies,
}
