"""The engine's port without an engine: a listener that greets whom it admits."""

import asyncio
import ssl
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from typing import cast

import msgspec

from strowger_gateway.local_engine.listening.tcp_listener import Admitted, Listening, TcpListener
from strowger_gateway.local_engine.protocol.address import TcpAddress
from strowger_gateway.local_engine.protocol.frames import FrameReader, Ready, ToWorker, frame
from strowger_gateway.local_engine.protocol.mutual_tls import TlsPaths
from tests.gateway.certificates import Issued

HERE = TcpAddress("127.0.0.1", 0)
_decode = msgspec.msgpack.Decoder[ToWorker](ToWorker).decode


class Greeter(asyncio.Protocol):
    """An admitted connection that sends `Ready` and ends with the client."""

    busy = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        cast(asyncio.Transport, transport).write(frame(Ready(models=("m",))))

    def leave(self) -> None:
        """Nothing to announce."""


class Port:
    """A listener and its log."""

    def __init__(
        self, listening: Listening, handshake_s: float, made: Callable[[], Admitted]
    ) -> None:
        self.said: list[str] = []
        self.listener = TcpListener(listening, made, self.said.append, handshake_s=handshake_s)

    async def logged(self, words: str) -> str:
        async with asyncio.timeout(60):
            while True:
                for line in self.said:
                    if words in line:
                        return line
                await asyncio.sleep(0.01)

    async def greeted(self, context: ssl.SSLContext | None) -> ToWorker:
        """The first frame. Raises OSError if the connection fails before it."""
        where = self.listener.address
        reader, writer = await asyncio.open_connection(
            where.host, where.port, ssl=context, server_hostname="engine.test" if context else None
        )
        frames = FrameReader()
        try:
            while data := await reader.read(65536):
                for body in frames.feed(data):
                    return _decode(body)
        finally:
            writer.close()
        raise ConnectionResetError("closed before a frame")


@asynccontextmanager
async def listening(
    tls: Issued | None,
    *,
    allow: tuple[str, ...] = (),
    connections: int = 8,
    handshake_s: float = 60.0,
    made: Callable[[], Admitted] = Greeter,
) -> AsyncGenerator[Port, None]:
    paths = None if tls is None else paths_of(tls)
    port = Port(
        Listening(address=HERE, tls=paths, allow=allow, connections=connections),
        handshake_s,
        made,
    )
    serving = asyncio.create_task(port.listener.serve())
    yield port
    serving.cancel()
    port.listener.close()
    for transport in tuple(port.listener.connections):
        cast(asyncio.Transport, transport).abort()


def paths_of(issued: Issued) -> TlsPaths:
    return TlsPaths(cert=str(issued.cert), key=str(issued.key), ca=str(issued.ca))
