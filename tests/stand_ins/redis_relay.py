"""A relay between a gateway and Redis that records the command without an answer so far."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager


class Relay:
    """url: of the database 0 behind it.

    question: the pending command, each a separate object; `None` if there is none. It ends with
    Redis's first bytes, or when the gateway disconnects.
    """

    def __init__(self, redis: int) -> None:
        """redis: the port of Redis, whether it runs or not."""
        self.url = ""
        self.question: object | None = None
        self._redis = redis

    async def relay(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Relay one connection of the gateway until either end disconnects."""
        try:
            answers, onward = await asyncio.open_connection("127.0.0.1", self._redis)
        except ConnectionError:
            writer.close()
            return
        answering = asyncio.create_task(self._answers(answers, writer))
        while data := await _read(reader):
            if self.question is None:
                self.question = object()
            onward.write(data)
        self.question = None
        onward.close()
        await answering

    async def _answers(self, answers: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await _read(answers):
            self.question = None
            writer.write(data)
        writer.close()


async def _read(reader: asyncio.StreamReader) -> bytes:
    """Read bytes; none once the connection has ended in any way."""
    try:
        return await reader.read(1 << 16)
    except ConnectionError:
        return b""


@asynccontextmanager
async def relayed(redis: int) -> AsyncGenerator[Relay, None]:
    """Run a relay for one gateway until the block ends. redis: see Relay."""
    relay = Relay(redis)
    server = await asyncio.start_server(relay.relay, "127.0.0.1")
    relay.url = f"redis://127.0.0.1:{server.sockets[0].getsockname()[1]}/0"
    try:
        yield relay
    finally:
        server.close()
