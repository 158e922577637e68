"""A provider with OpenAI's dialect for benchmarks: constant answers at minimal CPU cost.

python -m benchmarks.gateway.mock PORT. A request with `"stream":true` in its body gets EVENTS
events, one write each, PAUSE seconds apart; any other gets a chat answer of about 400 bytes.
"""

import asyncio
import json
import sys
from typing import cast

import uvloop

EVENTS = 100
PAUSE = 0.005
_USAGE = {"prompt_tokens": 9, "completion_tokens": EVENTS, "total_tokens": EVENTS + 9}
_MESSAGE = {"role": "assistant", "content": "Hello there, how may I assist you today?"}
BODY = json.dumps(
    {
        "id": "chatcmpl-123",
        "object": "chat.completion",
        "created": 1700000000,
        "model": "mock-1",
        "choices": [{"index": 0, "message": _MESSAGE, "finish_reason": "stop"}],
        "usage": _USAGE,
    }
).encode()
COMPLETION = json.dumps(
    {
        "id": "cmpl-123",
        "object": "text_completion",
        "created": 1700000000,
        "model": "mock-1",
        "choices": [{"index": 0, "text": _MESSAGE["content"], "finish_reason": "stop"}],
        "usage": _USAGE,
    }
).encode()
TOKENS = json.dumps(
    {
        "generated_text": _MESSAGE["content"],
        "details": {
            "finish_reason": "eos_token",
            "generated_tokens": 11,
            "generated_token_ids": [*range(100, 111)],
            "prompt_tokens": 351,
        },
    }
).encode()
_ANSWER = (
    b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: "
    + str(len(BODY)).encode()
    + b"\r\n\r\n"
    + BODY
)
_HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"


def _chunk(body: object) -> bytes:
    data = b"data: " + (body if isinstance(body, bytes) else json.dumps(body).encode()) + b"\n\n"
    return f"{len(data):x}\r\n".encode() + data + b"\r\n"


def _delta(delta: object, finish: str | None = None) -> dict[str, object]:
    choice = {"index": 0, "delta": delta, "finish_reason": finish}
    return {
        "id": "chatcmpl-123",
        "object": "chat.completion.chunk",
        "created": 1700000000,
        "model": "mock-1",
        "choices": [choice],
    }


_EVENT = _chunk(_delta({"content": " token"}))
_END = (
    _chunk(_delta({}, "stop"))
    + _chunk({**_delta({}), "choices": [], "usage": _USAGE})
    + _chunk(b"[DONE]")
    + b"0\r\n\r\n"
)


class Mock(asyncio.Protocol):
    """A connection has one request at a time, which arrives in a few reads."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._held = b""
        self._loop = asyncio.get_running_loop()

    def data_received(self, data: bytes) -> None:
        self._held += data
        while True:
            head, blank, rest = self._held.partition(b"\r\n\r\n")
            if not blank:
                return
            length = 0
            for line in head.lower().split(b"\r\n"):
                if line.startswith(b"content-length:"):
                    length = int(line[15:])
            if len(rest) < length:
                return
            body, self._held = rest[:length], rest[length:]
            if b'"stream":true' in body.replace(b" ", b""):
                self._transport.write(_HEAD + _EVENT)
                self._loop.call_later(PAUSE, self._go_on, 1)
            else:
                self._transport.write(_ANSWER)

    def _go_on(self, sent: int) -> None:
        if self._transport.is_closing():
            return
        if sent == EVENTS:
            self._transport.write(_END)
            return
        self._transport.write(_EVENT)
        self._loop.call_later(PAUSE, self._go_on, sent + 1)


async def _serve(port: int) -> None:
    server = await asyncio.get_running_loop().create_server(Mock, "127.0.0.1", port, backlog=1024)
    await server.serve_forever()


if __name__ == "__main__":
    uvloop.run(_serve(int(sys.argv[1])))
