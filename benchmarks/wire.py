"""CPU time per exchange of each transport, against a server in a separate process.

    python -m benchmarks.wire [--seconds 2] [--connections 1 64] [--transports wire httpx]

The figure is the client process's CPU time (user and system) per exchange: a 1.5 KB request, a
0.5 KB answer, both read whole. Rounds alternate between the transports and the median counts,
because the speed of machines drifts. With two cores the server has its own. `floor` is the cost of
the event loop, the sockets and one future: bytes out, bytes in, nothing parsed.
"""

import argparse
import asyncio
import os
import socket
import statistics
import sys
import time
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from multiprocessing import get_context
from typing import cast

import uvloop

from strowger_gateway.adapters.base import Outbound
from strowger_gateway.gateway.backends.upstream.httpx_transport import HttpxTransport
from strowger_gateway.gateway.backends.upstream.transport import Transport
from strowger_gateway.gateway.backends.upstream.wire import WireTransport

KINDS = ("floor", "wire", "httpx")
HEADERS = (
    ("content-type", "application/json"),
    ("accept", "application/json"),
    ("authorization", "Bearer sk-0123456789abcdef0123456789abcdef"),
    ("user-agent", "strowger"),
)
REQUEST = Outbound(target="/v1/chat/completions", headers=HEADERS, body=b"x" * 1500)
_FIELDS = (
    b"date: Thu, 01 Jan 2026 00:00:00 GMT\r\ncontent-type: application/json\r\n"
    b"x-request-id: req_0123456789abcdef\r\nopenai-processing-ms: 12\r\n"
    b"openai-version: 2020-10-01\r\nx-ratelimit-remaining-requests: 9999\r\n"
)
ANSWER = b"HTTP/1.1 200 OK\r\n%bcontent-length: 500\r\n\r\n%b" % (_FIELDS, b"y" * 500)


class Server(asyncio.Protocol):
    """Answers as soon as a request is complete; it only looks for the end of the request."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.WriteTransport", transport)
        self._held = b""

    def data_received(self, data: bytes) -> None:
        self._held += data
        end = self._held.find(b"\r\n\r\n")
        if end >= 0 and len(self._held) >= end + 4 + len(REQUEST.body):
            self._held = b""
            self._transport.write(ANSWER)


class Floor(asyncio.Protocol):
    """One connection; whatever arrives first counts as the answer."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.WriteTransport", transport)
        self._answered: asyncio.Future[bytes] | None = None

    def data_received(self, data: bytes) -> None:
        if self._answered is not None and not self._answered.done():
            self._answered.set_result(data)

    async def exchange(self, request: bytes) -> bytes:
        self._answered = asyncio.get_running_loop().create_future()
        self._transport.write(request)
        return await self._answered

    def close(self) -> None:
        self._transport.close()


def serve(listener: socket.socket, core: int | None) -> None:
    """Serve until the parent terminates this process."""
    _pin(core)

    async def run() -> None:
        server = await asyncio.get_running_loop().create_server(Server, sock=listener)
        await server.serve_forever()

    uvloop.run(run())


Exchange = Callable[[], Awaitable[object]]


async def load(exchanges: Sequence[Exchange], seconds: float) -> tuple[float, float]:
    """CPU and wall microseconds per exchange, with one client for each of `exchanges`."""
    loop = asyncio.get_running_loop()
    done = 0

    async def client(exchange: Exchange, until: float) -> None:
        nonlocal done
        while loop.time() < until:
            await exchange()
            done += 1

    async def clients(duration: float) -> None:
        until = loop.time() + duration
        await asyncio.gather(*[client(exchange, until) for exchange in exchanges])

    await clients(0.2)
    done = 0
    cpu, wall = time.process_time(), time.perf_counter()
    await clients(seconds)
    cpu, wall = time.process_time() - cpu, time.perf_counter() - wall
    return cpu / done * 1e6, wall / done * 1e6


async def measure(port: int, kind: str, connections: int, seconds: float) -> tuple[float, float]:
    """Run `load` with one transport."""
    loop = asyncio.get_running_loop()
    if kind == "floor":
        opened = [
            (await loop.create_connection(Floor, "127.0.0.1", port))[1] for _ in range(connections)
        ]
        request = b"POST /v1/chat/completions HTTP/1.1\r\n\r\n" + REQUEST.body
        try:
            return await load([partial(one.exchange, request) for one in opened], seconds)
        finally:
            for one in opened:
                one.close()
    transport: Transport = (WireTransport if kind == "wire" else HttpxTransport)(
        f"http://127.0.0.1:{port}", name=kind, max_connections=connections
    )

    async def exchange() -> None:
        now = loop.time()
        reply = await transport.exchange(REQUEST, connect_by=now + 5, head_by=now + 60)
        await reply.body(now + 60, 1_000_000)
        await reply.aclose()

    try:
        return await load([exchange] * connections, seconds)
    finally:
        await transport.aclose()


def main(argv: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=1.0, help="of each round")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--connections", type=int, nargs="+", default=[1, 64])
    parser.add_argument("--transports", nargs="+", choices=KINDS, default=list(KINDS))
    options = parser.parse_args(argv)
    cores = sorted(os.sched_getaffinity(0)) if sys.platform == "linux" else []
    listener = socket.create_server(("127.0.0.1", 0), backlog=1024)
    port = listener.getsockname()[1]
    core = cores[1] if len(cores) > 1 else None
    server = get_context("fork").Process(target=serve, args=(listener, core), daemon=True)
    server.start()
    _pin(cores[0] if len(cores) > 1 else None)
    try:
        print(f"{'transport':<12}{'connections':>12}{'CPU us':>10}{'wall us':>10}   per exchange")
        for connections in options.connections:
            found: dict[str, list[tuple[float, float]]] = {kind: [] for kind in options.transports}
            for _ in range(options.rounds):
                for kind in options.transports:
                    figures = measure(port, kind, connections, options.seconds)
                    found[kind].append(uvloop.run(figures))
            for kind, rounds in found.items():
                cpu, wall = (statistics.median(column) for column in zip(*rounds, strict=True))
                print(f"{kind:<12}{connections:>12}{cpu:>10.1f}{wall:>10.1f}")
    finally:
        server.terminate()
        server.join()


def _pin(core: int | None) -> None:
    if core is not None:
        os.sched_setaffinity(0, {core})


if __name__ == "__main__":
    main()
