"""A connection without a request is kept for a while, and closed by the check that costs requests
nothing: times are given to the check, instead of being waited for.
"""

import asyncio
import socket
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager

import pytest
from litestar.types import Receive, Scope, Send

from strowger_gateway.gateway.platform.clock import now
from strowger_gateway.gateway.server.http1.application import HotHandler
from strowger_gateway.gateway.server.http1.client_progress import IDLE_S
from strowger_gateway.gateway.server.http1.server import HttpServer

pytestmark = pytest.mark.anyio

Writer = asyncio.StreamWriter
LIMIT_S = 30.0
REQUEST = b"GET / HTTP/1.1\r\nhost: localhost\r\n\r\n"


class Hello:
    """An application without hot paths, which says hello."""

    hot: Mapping[str, HotHandler] = {}

    def find_hot(self, path: str) -> HotHandler | None:
        return None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers = [(b"content-length", b"5")]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": b"hello", "more_body": False})


@asynccontextmanager
async def connected() -> AsyncGenerator[tuple[HttpServer, asyncio.StreamReader, Writer]]:
    """The server and one connection to it."""
    server = HttpServer(Hello(), lifespan=False)
    listener = socket.create_server(("127.0.0.1", 0))
    listener.setblocking(False)
    running = asyncio.create_task(server.serve(listener))
    await server.listening.wait()
    reader, writer = await asyncio.open_connection(*listener.getsockname())
    while not server.connections:  # noqa: ASYNC110  nothing reports it
        await asyncio.sleep(0.001)
    yield server, reader, writer
    writer.close()
    server.stop()
    await running


async def test_an_idle_connection_is_kept_for_a_while_and_then_closed() -> None:
    async with connected() as (server, reader, writer):
        start = now()

        def check(after_s: float) -> None:
            for connection in tuple(server.connections):
                connection.check_deadline(start + after_s, LIMIT_S)

        for round_s in (0.0, IDLE_S - 1):
            writer.write(REQUEST)
            head = await reader.readuntil(b"hello")
            assert head.startswith(b"HTTP/1.1 200 OK\r\n")
            check(round_s)
            check(round_s + IDLE_S - 1)
            assert len(server.connections) == 1
        check(2 * IDLE_S)

        assert await reader.read() == b""


async def test_a_connection_on_which_nothing_arrives_is_closed_earlier() -> None:
    async with connected() as (server, reader, _):
        (connection,) = server.connections

        connection.check_deadline(100.0, LIMIT_S)
        connection.check_deadline(100.0 + LIMIT_S, LIMIT_S)

        assert await reader.read() == b""
