"""The load: connections with at most one request open on each, in the process of the benchmark."""

import asyncio
import re
import time
from collections.abc import Awaitable, Callable, Iterator
from typing import cast

import uvloop
from msgspec import Struct

from benchmarks.gateway.requests import Halves

_LENGTH = re.compile(rb"\r\ncontent-length: *(\d+)", re.IGNORECASE)
_STARTED_S = 0.05
"""After this time without requests a contender has accepted all connections."""
_ANSWER_S = 30.0


class Answered(Struct, frozen=True, kw_only=True):
    """latencies_s: of all answers, from sending the request to the last byte. first_s: to the first
    event, of streams. own_cpu_s: CPU time of the load itself. wall_s: its duration, with pauses.
    """

    latencies_s: list[float]
    first_s: list[float]
    own_cpu_s: float
    wall_s: float


class _Connection(asyncio.Protocol):
    """Sends the next request when the load asks for it, and reports the answer to the load."""

    def __init__(self, load: "Load") -> None:
        self._load = load
        self._loop = asyncio.get_running_loop()
        self._held = b""
        self._sent_s = 0.0
        self._first_s = 0.0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Both asyncio and uvloop set TCP_NODELAY, so that each write is a segment."""
        self._transport = cast(asyncio.Transport, transport)

    def send(self) -> None:
        head, body = next(self._load.requests)
        self._first_s = 0.0
        self._sent_s = time.perf_counter()
        if self._load.gap_s is None:
            self._transport.write(head + body)
            return
        self._transport.write(head)
        if self._load.gap_s:
            self._loop.call_later(self._load.gap_s, self._transport.write, body)
        else:
            self._loop.call_soon(self._transport.write, body)

    def data_received(self, data: bytes) -> None:
        self._held += data
        if not self._first_s and b"data: " in data:
            self._first_s = time.perf_counter()
        try:
            complete = _complete(self._held)
        except RuntimeError as error:
            self._load.fail(error)
            return
        if complete:
            self._held = b""
            if self._first_s:
                self._load.first_s.append(self._first_s - self._sent_s)
            self._load.latencies_s.append(time.perf_counter() - self._sent_s)
            self._load.answered(self)

    def connection_lost(self, exc: Exception | None) -> None:
        self._load.fail(RuntimeError(f"the contender closed a connection: {exc}"))

    def close(self) -> None:
        self._transport.close()


class Load:
    """Connections to one contender, and the requests that they send."""

    def __init__(self, requests: Iterator[Halves], *, gap_s: float | None) -> None:
        self.requests = requests
        self.gap_s = gap_s
        self.latencies_s: list[float] = []
        self.first_s: list[float] = []
        self._connections: list[_Connection] = []
        self._open = 0
        self._until = 0.0
        self._done = asyncio.get_running_loop().create_future()

    async def connect(self, port: int, connections: int) -> None:
        loop = asyncio.get_running_loop()
        for _ in range(connections):
            _, one = await loop.create_connection(lambda: _Connection(self), "127.0.0.1", port)
            self._connections.append(one)
        await asyncio.sleep(_STARTED_S)

    def close(self) -> None:
        self._done.cancel()
        for one in self._connections:
            one.close()

    async def closed_loop(self, seconds: float) -> None:
        """One request after the other on each connection, until all are answered."""
        self._until = time.perf_counter() + seconds
        await self.at_once()

    async def bursts(self, seconds: float, pause_s: float) -> None:
        """One request on all connections at once and a pause after the answers, repeatedly."""
        end = time.perf_counter() + seconds
        while time.perf_counter() < end:
            await self.at_once()
            await asyncio.sleep(pause_s)

    async def at_once(self) -> None:
        """One request on all connections at once, until all are answered."""
        await self.spread(0)

    async def spread(self, over_s: float) -> None:
        """One request on each connection, begun at regular intervals, until all are answered."""
        self._open = len(self._connections)
        self._done = asyncio.get_running_loop().create_future()
        for one in self._connections:
            one.send()
            if over_s:
                await asyncio.sleep(over_s / len(self._connections))
        async with asyncio.timeout(max(self._until - time.perf_counter(), 0) + _ANSWER_S):
            await self._done

    def answered(self, connection: _Connection) -> None:
        if time.perf_counter() < self._until:
            connection.send()
            return
        self._open -= 1
        if not self._open and not self._done.done():
            self._done.set_result(None)

    def fail(self, error: RuntimeError) -> None:
        if not self._done.done():
            self._done.set_exception(error)


def answers(
    port: int,
    requests: Iterator[Halves],
    pattern: Callable[[Load], Awaitable[None]],
    *,
    connections: int = 64,
    gap_s: float | None = None,
) -> Answered:
    """`ask` from start to end, on an event loop of its own."""
    return uvloop.run(ask(port, requests, pattern, connections=connections, gap_s=gap_s))


async def ask(
    port: int,
    requests: Iterator[Halves],
    pattern: Callable[[Load], Awaitable[None]],
    *,
    connections: int = 64,
    gap_s: float | None = None,
) -> Answered:
    """Send a load. gap_s: seconds between head and body, which are one write if it is `None`, and
    two in successive turns of the loop if it is 0.

    Raises RuntimeError unless every answer is a success, TimeoutError if one does not come.
    """
    load = Load(requests, gap_s=gap_s)
    await load.connect(port, connections)
    wall_s, own_cpu_s = time.perf_counter(), time.process_time()
    try:
        await pattern(load)
    finally:
        wall_s, own_cpu_s = time.perf_counter() - wall_s, time.process_time() - own_cpu_s
        load.close()
    return Answered(
        latencies_s=load.latencies_s, first_s=load.first_s, own_cpu_s=own_cpu_s, wall_s=wall_s
    )


def _complete(held: bytes) -> bool:
    """Whether this is a whole answer. Raises RuntimeError if it is not a success."""
    head, blank, rest = held.partition(b"\r\n\r\n")
    if not blank:
        return False
    if not head.startswith(b"HTTP/1.1 200 "):
        raise RuntimeError(held.decode("latin-1"))
    length = _LENGTH.search(head)
    return len(rest) >= int(length[1]) if length else rest.endswith(b"0\r\n\r\n")
