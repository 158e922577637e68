"""A provider for long runs: constant answers, and streams whose events contain their send time.

python -m benchmarks.soak.provider PORT. A request with `"stream":true` gets as many events as its
max_tokens, PACE_S apart; the content of each is the monotonic clock's microseconds. GET /open
returns the number of streams that are being sent.
"""

import asyncio
import re
import sys
import time
from collections.abc import Callable
from typing import cast

import uvloop

from benchmarks.gateway.mock import BODY

PACE_S = 0.2
_WHOLE = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n%b"
_HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
_EVENT = (
    b'data: {"id":"c-1","object":"chat.completion.chunk","created":1700000000,"model":"mock-1",'
    b'"choices":[{"index":0,"delta":{"content":"%d "},"finish_reason":null}]}\n\n'
)
_LAST = (
    b'data: {"id":"c-1","object":"chat.completion.chunk","created":1700000000,"model":"mock-1",'
    b'"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}\n\ndata: [DONE]\n\n'
)
_LENGTH = re.compile(rb"\r\ncontent-length: *(\d+)", re.IGNORECASE)
_EVENTS = re.compile(rb'"max_tokens": *(\d+)')
_STREAMED = re.compile(rb'"stream": *true')

_ANSWER = _WHOLE % (len(BODY), BODY)


def _chunk(data: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(data), data)


class Provider(asyncio.Protocol):
    """One connection; requests come one at a time. open: shared by all of them."""

    def __init__(self, streams: set["Provider"]) -> None:
        self._streams = streams
        self._held = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._later: Callable[..., object] = asyncio.get_running_loop().call_later

    def connection_lost(self, exc: Exception | None) -> None:
        self._streams.discard(self)

    def data_received(self, data: bytes) -> None:
        self._held += data
        while True:
            head, blank, rest = self._held.partition(b"\r\n\r\n")
            found = _LENGTH.search(head)
            length = int(found[1]) if found else 0
            if not blank or len(rest) < length:
                return
            body, self._held = rest[:length], rest[length:]
            self._answer(head, body)

    def _answer(self, head: bytes, body: bytes) -> None:
        if head.startswith(b"GET /open "):
            count = b"%d" % len(self._streams)
            self._transport.write(_WHOLE % (len(count), count))
        elif _STREAMED.search(body):
            found = _EVENTS.search(body)
            self._transport.write(_HEAD)
            self._streams.add(self)
            self._go_on(int(found[1]) if found else 1)
        else:
            self._transport.write(_ANSWER)

    def _go_on(self, left: int) -> None:
        if self._transport.is_closing():
            return
        if left == 0:
            self._streams.discard(self)
            self._transport.write(_chunk(_LAST) + b"0\r\n\r\n")
            return
        self._transport.write(_chunk(_EVENT % (time.monotonic() * 1e6)))
        self._later(PACE_S, self._go_on, left - 1)


async def _serve(port: int) -> None:
    streams: set[Provider] = set()
    loop = asyncio.get_running_loop()
    server = await loop.create_server(lambda: Provider(streams), "127.0.0.1", port, backlog=4096)
    await server.serve_forever()


if __name__ == "__main__":
    uvloop.run(_serve(int(sys.argv[1])))
