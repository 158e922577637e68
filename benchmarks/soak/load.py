"""The clients of a long run: whole answers, abandoned streams, many concurrent streams.

They implement HTTP/1.1 themselves and read only as much of an answer as they need, so that one core
is enough for them and the provider.
"""

import asyncio
import re
import time
from collections.abc import Callable
from typing import cast

from msgspec import Struct

_CONTENT = re.compile(rb'"content":"(\d{6,}) ')
_LENGTH = re.compile(rb"\r\ncontent-length: *(\d+)", re.IGNORECASE)
_LEFT_AFTER = 2
"""Events that a client receives before it abandons a stream."""


class Late(Struct, frozen=True, kw_only=True):
    """Delays of all events from the provider to the client, seconds, ascending."""

    delays: list[float]
    broken: int

    def at(self, share: float) -> float:
        return self.delays[min(int(len(self.delays) * share), len(self.delays) - 1)]


def request(*, stream: bool, events: int = 1) -> bytes:
    """A chat request of about 300 bytes."""
    said = "Explain in one paragraph why the sky is blue, for a child of ten."
    body = (
        f'{{"model":"chat","messages":[{{"role":"user","content":"{said}"}}],'
        f'"max_tokens":{events},"stream":{"true" if stream else "false"}}}'
    ).encode()
    head = (
        "POST /v1/chat/completions HTTP/1.1\r\nhost: localhost\r\n"
        f"content-type: application/json\r\ncontent-length: {len(body)}\r\n\r\n"
    )
    return head.encode() + body


class _Asking(asyncio.Protocol):
    """One connection that sends requests as long as `more` returns true."""

    def __init__(self, more: Callable[[], bool], done: asyncio.Future[None]) -> None:
        self._more = more
        self._done = done
        self._request = request(stream=False)
        self._held = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._go_on()

    def data_received(self, data: bytes) -> None:
        self._held += data
        head, blank, rest = self._held.partition(b"\r\n\r\n")
        if not blank:
            return
        if not head.startswith(b"HTTP/1.1 200 "):
            self._fail(RuntimeError(head.decode("latin-1")))
            return
        found = _LENGTH.search(head)
        if found and len(rest) >= int(found[1]):
            self._held = b""
            self._go_on()

    def connection_lost(self, exc: Exception | None) -> None:
        self._fail(RuntimeError(f"the connection was closed: {exc}"))

    def _go_on(self) -> None:
        if self._more():
            self._transport.write(self._request)
        elif not self._done.done():
            self._done.set_result(None)
            self._transport.close()

    def _fail(self, error: Exception) -> None:
        if not self._done.done():
            self._done.set_exception(error)


async def ask(
    port: int, requests: int, *, connections: int = 64, on_done: Callable[[], object] | None = None
) -> None:
    """Receive whole answers. on_done: called for each. Raises RuntimeError unless all are 200."""
    loop, left = asyncio.get_running_loop(), requests

    def more() -> bool:
        nonlocal left
        left -= 1
        if left >= 0 and on_done is not None:
            on_done()
        return left >= 0

    dones = [loop.create_future() for _ in range(connections)]
    for done in dones:
        await loop.create_connection(lambda done=done: _Asking(more, done), "127.0.0.1", port)
    await asyncio.gather(*dones)


async def leave(
    port: int, streams: int, *, at_once: int = 64, on_done: Callable[[], object] | None = None
) -> None:
    """Begin streams and abandon each after two events. on_done: called for each."""
    left = streams
    wanted = request(stream=True, events=1_000)

    async def client() -> None:
        nonlocal left
        while left > 0:
            left -= 1
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(wanted)
            for _ in range(_LEFT_AFTER):
                await reader.readuntil(b'"content":"')
            writer.transport.abort()
            if on_done is not None:
                on_done()

    await asyncio.gather(*(client() for _ in range(min(at_once, streams))))


async def listen(port: int, streams: int, *, events: int, over_s: float) -> Late:
    """Concurrent streams that begin within `over_s` seconds and have `events` events each."""
    delays: list[float] = []
    broken = 0
    wanted = request(stream=True, events=events)

    async def client(place: int) -> None:
        nonlocal broken
        await asyncio.sleep(over_s * place / streams)
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(wanted)
        seen, whole = 0, False
        while data := await reader.read(65536):
            at = time.monotonic()
            for found in _CONTENT.finditer(data):
                delays.append(at - int(found[1]) / 1e6)
                seen += 1
            if b"[DONE]" in data:
                whole = True
                break
        broken += not whole or seen != events
        writer.close()

    await asyncio.gather(*(client(place) for place in range(streams)))
    delays.sort()
    return Late(delays=delays, broken=broken)


async def streams_open(port: int) -> int:
    """Number of streams that the provider at `port` is sending."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(b"GET /open HTTP/1.1\r\nhost: localhost\r\n\r\n")
    head = await reader.readuntil(b"\r\n\r\n")
    found = _LENGTH.search(head)
    count = int(await reader.readexactly(int(found[1]) if found else 0))
    writer.close()
    return count
