"""Hostile requests, generated from the routes' own; seeded, so that each can be reproduced."""

import json
import random
import struct
from collections.abc import Sequence
from copy import deepcopy
from typing import Final, cast
from urllib.parse import quote

import msgspec
from msgspec import Struct

from strowger_gateway.gateway.experiments.feedback import FeedbackBody
from strowger_gateway.gateway.surfaces.routes import HOT_ROUTES

Json = dict[str, object]

TEXT: Final = [{"role": "user", "content": "hi"}]
TENSORS: Final = [
    {"name": "input_ids", "datatype": "INT32", "shape": [1, 3], "data": [1, 2, 3]},
    {"name": "input_lengths", "datatype": "INT32", "shape": [1, 1], "data": [3]},
    {"name": "request_output_len", "datatype": "UINT32", "shape": [1, 1], "data": [2]},
]
SOUND: Final[dict[str, Json]] = {
    "chat": {"model": "chat", "messages": TEXT, "tools": [{"type": "function"}], "stop": ["a"]},
    "completions": {"model": "chat", "prompt": "hi", "n": 2, "logprobs": 1},
    "embeddings": {"model": "chat", "input": ["hi"], "dimensions": 2},
    "rerank": {"model": "chat", "query": "hi", "documents": ["hi", {"text": "a"}], "top_n": 1},
    "score": {"model": "chat", "text_1": "hi", "text_2": ["hi", "a"]},
    "classify": {"model": "chat", "input": ["hi"], "labels": ["a"]},
    "pooling": {"model": "chat", "input": ["hi", [1, 2]], "task": "embed", "dimensions": 2},
    "moderations": {"model": "chat", "input": ["hi", "a"]},
    "predict": {"model": "chat", "inputs": [["hi", "a"], ["a"]]},
    "infer_token": {"input_id": [1, 2], "parameters": {"top_k": 1, "seed": 1}, "stream": False},
    "invocations": {"messages": TEXT, "extra_params": {"top_k": "1"}},
    "infer": {"id": "1", "inputs": TENSORS, "outputs": [{"name": "output_ids"}]},
    "generate": {"text_input": "hi", "max_tokens": 2, "parameters": {"temperature": 1}},
    "generate_stream": {"input_ids": [1, 2], "max_tokens": 2},
    "feedback": {"request_id": "00000000-0000-7000-8000-000000000000", "metric": "m", "value": 1},
    "pause": {"reason": "because"},
    "index": {"ready": True},
}
"""Bodies that are right, or nearly, by a path's last segment."""

MARK: Final = "@@raw@@"
RAW: Final = (
    b"1e999",
    b"-1e999",
    b"1" + b"0" * 400,
    b"-0",
    b"1.0000000000000000000000000000001",
    b"9223372036854775808",
    b"18446744073709551616",
    b'"\\ud800"',
    b'"\\udc00\\ud800"',
    b'"\\u0000"',
    b'"\xff\xfe"',
    b'"\xed\xa0\x80"',
    b"NaN",
    b"Infinity",
    b"[" * 600 + b"]" * 600,
    b'{"a":' * 600 + b"1" + b"}" * 600,
    b"[" * 5_000,
    b'"' + b"a" * 70_000 + b'"',
    b"[" + b"1," * 20_000 + b"1]",
    b'{"a":1,"a":2}',
    b"'x'",
    b"",
)
VALUES: Final[list[object]] = [
    None,
    True,
    0,
    -1,
    1,
    2**31,
    2**63,
    2**64,
    0.5,
    -1.5,
    1e308,
    "",
    " ",
    "a",
    "chat",
    "\n\r\t\0",
    "🎈\u202e",
    "data:image/png;base64,!!",
    "http://169.254.169.254/",
    [],
    {},
    [[]],
    [{}],
    [None],
    ["a"],
    [1],
    [[1]],
    [1, "a"],
    {"": ""},
    {"a": {"b": []}},
    {"type": "function", "function": {"name": "f", "parameters": {"type": 1}}},
    {"type": "json_schema", "json_schema": {"name": "a", "schema": {"$ref": "#"}}},
    [{"role": "tool", "content": "x", "tool_call_id": "y"}],
    [
        {
            "role": "assistant",
            "tool_calls": [{"id": "1", "function": {"name": "f", "arguments": "{"}}],
        }
    ],
    [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "x"}}]}],
]
KINDS: Final = (
    b"application/json",
    b"application/json; charset=utf-16",
    b"application/octet-stream",
    b"text/plain",
    b"multipart/form-data; boundary=x",
    b"application/x-www-form-urlencoded",
    b"",
    b"\xff/\xfe",
)
SEGMENTS: Final = ("chat", "chat/ready", "unknown", "", "%00", "%ff", "..", "%2e%2e%2f", "a" * 300)
QUERIES: Final = (
    "", "", "", "?", "?window=5m", "?window=x", "?limit=-1", "?limit=1e9", "?path=openai",
    "?path=/infer_token&model=%ff", "?down=%00", "?key=unknown", "?down=a&down=b", "?a=%zz&=&&",
    "?limit=99999999999999999999", "?model=" + "m" * 3_000,
)  # fmt: skip


class Sent(Struct, frozen=True, kw_only=True):
    """One request as bytes, and the path that it goes to."""

    method: str
    path: str
    data: bytes


class Fuzz:
    """A stream of requests. routes: methods and paths as they were written."""

    def __init__(self, seed: int, routes: Sequence[tuple[str, str]]) -> None:
        self._random = random.Random(seed)
        self._routes = routes
        self._fields = {route.path: _names(route.body()) for route in HOT_ROUTES}
        self._fields["/v1/feedback"] = _names(FeedbackBody)

    def next(self) -> Sent:
        pick = self._random
        method, template = pick.choice(self._routes)
        path = self._path(template)
        headers = [b"host: localhost", b"content-type: " + self._kind()]
        if pick.random() < 0.9:
            headers.append(b"authorization: Bearer the-operators-key")
        body = b"" if method == "GET" and pick.random() < 0.9 else self._body(template, headers)
        if pick.random() < 0.1:
            headers.append(self._header())
        headers.append(b"content-length: %d" % len(body))
        if pick.random() < 0.02:
            method = pick.choice(("PUT", "DELETE", "OPTIONS", "HEAD", "PATCH", "GET", "POST"))
        head = f"{method} {path} HTTP/1.1".encode("latin-1")
        data = b"\r\n".join((head, *headers)) + b"\r\n\r\n" + body
        return Sent(method=method, path=path, data=data)

    def _path(self, template: str) -> str:
        pick = self._random
        pieces = [
            piece if not piece.startswith("{") else self._segment() for piece in template.split("/")
        ]
        path = "/".join(pieces)
        if pick.random() < 0.05:
            path = quote(path, safe="") if pick.random() < 0.3 else path.replace("/", "//", 1)
        return ("/" + path.lstrip("/") if not path.startswith("/") else path) + pick.choice(QUERIES)

    def _segment(self) -> str:
        return "chat" if self._random.random() < 0.7 else self._random.choice(SEGMENTS)

    def _kind(self) -> bytes:
        return KINDS[0] if self._random.random() < 0.9 else self._random.choice(KINDS)

    def _header(self) -> bytes:
        name = self._random.choice(
            (b"inference-header-content-length", b"content-encoding", b"x-request-id", b"origin",
             b"cookie", b"accept", b"if-none-match", b"expect", b"api-key", b"sec-fetch-site")
        )  # fmt: skip
        value = self._random.choice(
            (b"0", b"-1", b"9" * 30, b"gzip", b"deflate", b"br", b"\xff", b"a" * 500, b"chat",
             b"strowger_admin=!!", b"none", b"3")
        )  # fmt: skip
        return name + b": " + value

    def _body(self, template: str, headers: list[bytes]) -> bytes:
        pick = self._random
        last = template.rstrip("/").rpartition("/")[2]
        if last == "completions" and "chat" in template:
            last = "chat"
        body: Json = deepcopy(SOUND.get(last) or SOUND[pick.choice(list(SOUND))])
        names = self._fields.get(template) or list(body)
        raws: list[bytes] = []
        for _ in range(pick.choice((0, 1, 1, 1, 2, 4))):
            self._spoil(body, names, raws)
        data = json.dumps(body).encode()
        for raw in raws:
            data = data.replace(b'"%b"' % MARK.encode(), raw, 1)
        if last == "infer" and pick.random() < 0.3:
            data = self._binary(body, headers)
        return self._torn(data) if pick.random() < 0.1 else data

    def _value(self) -> object:
        return deepcopy(self._random.choice(VALUES))

    def _spoil(self, body: Json, names: Sequence[str], raws: list[bytes]) -> None:
        """Another value somewhere, a field more or one less."""
        pick = self._random
        place: Json = body
        inner = [cast(Json, one) for one in body.values() if isinstance(one, dict)]
        if inner and pick.random() < 0.3:
            place = pick.choice(inner)
        name = pick.choice(list(names) if pick.random() < 0.8 else ["unknown", "", "a" * 300, "\0"])
        match pick.randrange(5):
            case 0 if place:
                place.pop(pick.choice(list(place)))
            case 1 | 2:
                raws.append(pick.choice(RAW))
                place[name] = MARK
            case 3 if place:
                place[pick.choice(list(place))] = self._value()
            case _:
                place[name] = self._value()

    def _binary(self, body: Json, headers: list[bytes]) -> bytes:
        pick = self._random
        tensors: list[Json] = []
        tail = b""
        for one in TENSORS:
            data = struct.pack("<3i", 1, 2, 3)[: pick.choice((12, 12, 4, 5, 0))]
            size = pick.choice((len(data), len(data), 0, -1, 10**12))
            parameters: Json = {"binary_data_size": size}
            shape = pick.choice(([1, 3], [1, 1], [0], [-1], [2**40, 2**40], []))
            tensors.append({**one, "shape": shape, "parameters": parameters})
            del tensors[-1]["data"]
            tail += data
        wire = json.dumps({**body, "inputs": tensors}).encode()
        length = pick.choice((len(wire), len(wire), 0, len(wire) + 10**6))
        headers.append(b"inference-header-content-length: %d" % length)
        return wire + tail

    def _torn(self, data: bytes) -> bytes:
        pick = self._random
        at = pick.randrange(len(data) + 1)
        return pick.choice(
            (data[:at], data[:at] + b"\0" + data[at:], data[:at] + b"\xff" + data[at + 1 :],
             b"\xef\xbb\xbf" + data, data.decode("utf-8", "replace").encode("utf-16"), data * 2)
        )  # fmt: skip


def _names(body: type[Struct]) -> list[str]:
    return [field.encode_name for field in msgspec.structs.fields(body)]
