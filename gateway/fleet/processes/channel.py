"""The socket between the leader and one worker: framed messages, in order."""

import asyncio
import socket
from collections.abc import AsyncGenerator
from typing import Generic, TypeVar, cast

import msgspec

from strowger_gateway.gateway.fleet.processes.messages import ToLeader, ToWorker, frame
from strowger_gateway.local_engine.protocol.frames import BrokenFrame, FrameReader

_Incoming = TypeVar("_Incoming", ToLeader, ToWorker)


class Channel(asyncio.Protocol, Generic[_Incoming]):
    """One end of the channel.

    `messages` ends when the other end closes; `send` then does nothing.
    """

    def __init__(self, decoder: msgspec.msgpack.Decoder[_Incoming]) -> None:
        self._decoder = decoder
        self._reader = FrameReader()
        self._inbox: asyncio.Queue[_Incoming | None] = asyncio.Queue()
        self._transport: asyncio.Transport | None = None

    async def connect(self, end: socket.socket) -> None:
        """end: one end of a socket pair; the channel owns it from now on."""
        end.setblocking(False)
        await asyncio.get_running_loop().create_unix_connection(lambda: self, sock=end)

    def send(self, message: ToLeader | ToWorker) -> None:
        if self._transport is not None:
            self._transport.write(frame(message))

    async def next(self) -> _Incoming | None:
        """Return the next message; `None` when the other end has closed."""
        return await self._inbox.get()

    async def messages(self) -> AsyncGenerator[_Incoming, None]:
        """Yield messages until the other end closes."""
        while (message := await self.next()) is not None:
            yield message

    def close(self) -> None:
        if self._transport is not None:
            self._transport.close()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # A cast, because uvloop's transport is not a subclass of asyncio.Transport.
        self._transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        try:
            for body in self._reader.feed(data):
                self._inbox.put_nowait(self._decoder.decode(body))
        except (BrokenFrame, msgspec.DecodeError):
            self.close()
            raise

    def connection_lost(self, exc: Exception | None) -> None:
        self._transport = None
        self._inbox.put_nowait(None)
