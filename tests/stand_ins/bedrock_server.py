"""A fake Bedrock runtime on loopback, with AWS's event stream and answers."""

import json
import random
import struct
from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import cast
from urllib.parse import unquote
from zlib import crc32

from tests.stand_ins.provider import Answer, Received

Json = dict[str, object]

FAILING = "fail at once"
REQUEST_ID = "61fd75b2-bd4a-48ea-95cf-d84d111be9ca"
USAGE: Json = {
    "inputTokens": 11,
    "outputTokens": 5,
    "totalTokens": 36,
    "cacheReadInputTokens": 20,
    "cacheWriteInputTokens": 0,
}
PADDING = "abcdefghijklmnop"


def message(headers: Iterable[tuple[str, bytes]], payload: bytes) -> bytes:
    """Encode one message. headers: names, and values as type and content on the wire."""
    block = b"".join(bytes([len(name)]) + name.encode() + value for name, value in headers)
    head = struct.pack(">II", 16 + len(block) + len(payload), len(block))
    body = head + struct.pack(">I", crc32(head)) + block + payload
    return body + struct.pack(">I", crc32(body))


def text(value: str) -> bytes:
    """Encode a header's value of type string."""
    data = value.encode()
    return b"\x07" + struct.pack(">H", len(data)) + data


def event(kind: str, payload: Json) -> bytes:
    headers = (
        (":event-type", text(kind)),
        (":content-type", text("application/json")),
        (":message-type", text("event")),
    )
    return message(headers, json.dumps({**payload, "p": PADDING}).encode())


def exception(kind: str, payload: Json) -> bytes:
    headers = (
        (":exception-type", text(kind)),
        (":content-type", text("application/json")),
        (":message-type", text("exception")),
    )
    return message(headers, json.dumps(payload).encode())


def error(code: str, said: str) -> bytes:
    """Encode an error that the service's model does not define."""
    headers = (
        (":error-code", text(code)),
        (":error-message", text(said)),
        (":message-type", text("error")),
    )
    return message(headers, b"")


def delta(block: int, piece: Json) -> bytes:
    return event("contentBlockDelta", {"contentBlockIndex": block, "delta": piece})


def call_starts(block: int, id: str, name: str) -> bytes:
    start = {"toolUse": {"toolUseId": id, "name": name}}
    return event("contentBlockStart", {"contentBlockIndex": block, "start": start})


def stops(block: int) -> bytes:
    return event("contentBlockStop", {"contentBlockIndex": block})


def starts() -> bytes:
    return event("messageStart", {"role": "assistant"})


def ends(reason: str) -> tuple[bytes, bytes]:
    return (
        event("messageStop", {"stopReason": reason}),
        event("metadata", {"usage": USAGE, "metrics": {"latencyMs": 7}}),
    )


def thinking(block: int, said: str, signature: str) -> tuple[bytes, ...]:
    return (
        delta(block, {"reasoningContent": {"text": said}}),
        delta(block, {"reasoningContent": {"signature": signature}}),
        stops(block),
    )


def whole(reason: str, *content: Json) -> Json:
    return {
        "output": {"message": {"role": "assistant", "content": list(content)}},
        "stopReason": reason,
        "usage": USAGE,
        "metrics": {"latencyMs": 7},
    }


def used(id: str, name: str, arguments: Json) -> Json:
    return {"toolUse": {"toolUseId": id, "name": name, "input": arguments}}


THOUGHT: Json = {"reasoningContent": {"reasoningText": {"text": "Hm.", "signature": "proof="}}}
ANSWER = whole("end_turn", THOUGHT, {"text": "Hello 🌍"})
CALLS = whole(
    "tool_use",
    THOUGHT,
    {"text": "I look."},
    used("tooluse_1", "weather", {"at": "A"}),
    used("tooluse_2", "clock", {}),
)
ANSWER_STREAM = (
    starts(),
    *thinking(0, "Hm.", "proof="),
    delta(1, {"text": "Hel"}),
    delta(1, {"text": "lo 🌍"}),
    stops(1),
    *ends("end_turn"),
)
CALLS_STREAM = (
    starts(),
    *thinking(0, "Hm.", "proof="),
    delta(1, {"text": "I look."}),
    stops(1),
    call_starts(2, "tooluse_1", "weather"),
    delta(2, {"toolUse": {"input": '{"at": '}}),
    delta(2, {"toolUse": {"input": '"A"}'}}),
    stops(2),
    call_starts(3, "tooluse_2", "clock"),
    delta(3, {"toolUse": {"input": ""}}),
    stops(3),
    *ends("tool_use"),
)


def cut(body: bytes, seed: int) -> list[bytes]:
    """Split the body at places that ignore message boundaries."""
    places = random.Random(seed).sample(range(1, len(body)), min(40, len(body) - 1))
    return [body[a:b] for a, b in pairwise([0, *sorted(places), len(body)])]


async def bedrock(request: Received, answer: Answer) -> None:
    """Answer with calls if there are tools but no result, else with reasoning and text."""
    _, _, model, verb = unquote(request.path.replace("%2F", "%252F")).split("/")
    body = request.json
    if verb == "invoke":
        await answer.json(_vectors(model, body), headers={"x-amzn-requestid": REQUEST_ID})
        return
    if FAILING in request.body.decode():
        await answer.json(
            {"message": "Too many requests, please wait before trying again."},
            429,
            {"x-amzn-errortype": "ThrottlingException:http://internal.amazon.com/coral/"},
        )
        return
    calls = "toolConfig" in body and b"toolResult" not in request.body
    if verb == "converse":
        await answer.json(CALLS if calls else ANSWER, headers={"x-amzn-requestid": REQUEST_ID})
        return
    await _stream(answer, CALLS_STREAM if calls else ANSWER_STREAM)


async def _stream(answer: Answer, messages: Sequence[bytes]) -> None:
    await answer.raw(
        b"HTTP/1.1 200 OK\r\ncontent-type: application/vnd.amazon.eventstream\r\n"
        b"x-amzn-requestid: " + REQUEST_ID.encode() + b"\r\ntransfer-encoding: chunked\r\n\r\n"
    )
    for piece in cut(b"".join(messages), seed=len(messages)):
        await answer.chunk(piece)
    await answer.raw(b"0\r\n\r\n")


def _vectors(model: str, body: Json) -> Json:
    if "cohere" in model:
        return {"id": "e", "embeddings": [[0.5, -1.0] for _ in cast("list[str]", body["texts"])]}
    return {"embedding": [0.5, -1.0], "inputTextTokenCount": 4}
