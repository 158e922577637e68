"""Engines without a model: sockets that speak the real frames and behave as scripted."""

import asyncio
import socket
import ssl
from collections import Counter
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Literal

import msgspec
from msgspec import Struct

from strowger_gateway.gateway.backends.engines.process.process import EngineView, State
from strowger_gateway.gateway.config.schema.config import Config
from strowger_gateway.local_engine.protocol.frames import (
    Batch,
    Cancel,
    Deltas,
    Embed,
    FrameReader,
    Ready,
    StatsReply,
    StatsRequest,
    Submit,
    ToEngine,
    ToWorker,
    Vectors,
    decode_request,
    failed,
    frame,
)
from strowger_gateway.local_engine.protocol.stats import Machine
from strowger_gateway.schemas.errors import GatewayError
from strowger_gateway.schemas.events import Event, Finished, Started, TextDelta, Tokens, Usage
from strowger_gateway.schemas.requests import TokenRequest

Door = Literal["opens", "silent", "shuts", "leaves", "gone"]
"""What meets a connection: `ready`, nothing at all, its end, `ready` and its end, or no socket."""

_decoder: msgspec.msgpack.Decoder[ToEngine] = msgspec.msgpack.Decoder(ToEngine)


class Asked:
    """One request, and the writing half of its answer. gone: it was cancelled, or its worker left.

    given: the prompt of a request for tokens.
    stream: whether the client asked for one; an engine answers in batches either way.
    """

    def __init__(self, writer: asyncio.StreamWriter, message: Submit | Embed) -> None:
        self.message = message
        self.model = message.model
        self.embeds = isinstance(message, Embed)
        request = None if isinstance(message, Embed) else decode_request(message.request)
        self.tokens = isinstance(request, TokenRequest)
        self.given = request.tokens if isinstance(request, TokenRequest) else ()
        self.stream = request is not None and request.stream
        self.gone = asyncio.Event()
        self._writer = writer

    async def events(self, *events: Event, last: bool = False) -> None:
        batch = Batch(id=self.message.id, events=events, last=last)
        await self.write(Deltas(batches=(batch,)))

    async def begin(self) -> None:
        """What an engine says before its model has said anything."""
        if not self.embeds:
            await self.events(Started(id="r", model=self.model, created=1_700_000_000))

    async def say(self, text: str, token: int, count: int) -> None:
        """The next token; of vectors, a piece. count: so far, this one included."""
        if self.embeds:
            await self.vectors()
            return
        piece = Tokens(ids=(token,), text=text) if self.tokens else TextDelta(text=text)
        await self.events(piece, _usage(count))

    async def end(self) -> None:
        if self.embeds:
            await self.vectors(last=True)
        else:
            await self.events(Finished(reason="stop"), _usage(2), last=True)

    async def vectors(self, *, last: bool = False) -> None:
        """A vector of one number, in little-endian float32."""
        values = b"\0\0\0\x3f"
        await self.write(Vectors(id=self.message.id, values=values, width=1, tokens=7, last=last))

    async def fail(self, error: GatewayError) -> None:
        await self.write(failed(self.message.id, error))

    async def write(self, message: ToWorker | bytes) -> None:
        self._writer.write(message if isinstance(message, bytes) else frame(message))
        await self._writer.drain()

    def die(self) -> None:
        """The process is gone, and all of its connections."""
        self._writer.transport.abort()


def _usage(count: int) -> Usage:
    return Usage(prompt_tokens=7, completion_tokens=count, total_tokens=7 + count)


Conduct = Callable[[Asked], Awaitable[None]]


async def works(asked: Asked) -> None:
    """ "hello" in two tokens, or a vector of 0.5."""
    await asked.begin()
    if not asked.embeds:
        await asked.say("hel", 11, 1)
        await asked.say("lo", 12, 2)
    await asked.end()


class StandIn(Struct, frozen=True, kw_only=True):
    """What is known of an engine: see EngineView."""

    name: str
    socket_path: Path
    state: State = "ready"
    status: str = "ready"
    restarts: int = 0
    pid: int | None = None
    uptime_s: float = 1.0
    ready: bool = True

    def ready_in(self) -> float | None:
        return 3.0

    def watch(self, on_status: Callable[[str], None]) -> None:
        """Nothing changes."""

    def unwatch(self, on_status: Callable[[str], None]) -> None:
        """Nothing was watched."""


class StandIns:
    """A configuration's engines. asked: every request; open: connections; cancelled: models;
    ports: by door, on TCP.

    doors: by provider; "opens" where there is no entry.
    """

    def __init__(self, folder: Path, conduct: Conduct, doors: Mapping[str, Door]) -> None:
        self.asked: list[Asked] = []
        self.cancelled: list[str] = []
        self.open: Counter[Door] = Counter()
        self.ports: dict[Door, int] = {}
        self.changed = asyncio.Condition()
        self._folder = folder
        self._conduct = conduct
        self._doors = doors
        self._writers: set[asyncio.StreamWriter] = set()

    def serving(self, config: Config) -> Mapping[str, EngineView]:
        return {
            one.name: StandIn(name=one.name, socket_path=self._path(self.door_of(one.name)))
            for one in config.providers
            if one.engine is not None
        }

    def door_of(self, provider: str) -> Door:
        return self._doors.get(provider, "opens")

    def count(self, model: str) -> int:
        return sum(one.model == model for one in self.asked)

    async def until(self, condition: Callable[[], bool], seconds: float = 60.0) -> None:
        """Wait until a condition is true, of these engines or of what nobody announces."""
        async with asyncio.timeout(seconds), self.changed:
            while not condition():
                with suppress(TimeoutError):
                    await asyncio.wait_for(self.changed.wait(), 0.02)

    async def start(self) -> list[asyncio.Server]:
        return [
            await asyncio.start_unix_server(serve, self._path(door))
            for door, serve in self._serves().items()
        ]

    async def start_on_tcp(self, context: ssl.SSLContext) -> list[asyncio.Server]:
        """Be engines on TCP, too. Afterwards `ports` has every door's."""
        servers: list[asyncio.Server] = []
        with socket.create_server(("127.0.0.1", 0)) as nothing:
            self.ports["gone"] = nothing.getsockname()[1]
            for door, serve in self._serves().items():
                servers.append(await asyncio.start_server(serve, "127.0.0.1", 0, ssl=context))
                self.ports[door] = servers[-1].sockets[0].getsockname()[1]
        return servers

    def _serves(self) -> dict[Door, Callable[..., Awaitable[None]]]:
        return {
            "opens": self._opens,
            "silent": self._silent,
            "shuts": self._shuts,
            "leaves": self._leaves,
        }

    async def listen(self, context: ssl.SSLContext | None = None, port: int = 0) -> asyncio.Server:
        """Be an engine on TCP, too, at a port of 127.0.0.1."""
        return await asyncio.start_server(self._opens, "127.0.0.1", port, ssl=context)

    def stop(self) -> None:
        for writer in list(self._writers):
            writer.transport.abort()

    def _path(self, door: str) -> Path:
        return self._folder / f"{door}.sock"

    async def _opens(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._writers.add(writer)
        await self._change(1, "opens")
        writer.write(frame(Ready(models=("m",))))
        frames, under_way = FrameReader(), dict[int, tuple[Asked, asyncio.Task[None]]]()
        try:
            with suppress(ConnectionError):
                while data := await reader.read(65536):
                    for body in frames.feed(data):
                        await self._hear(_decoder.decode(body), writer, under_way)
        finally:
            for asked, task in under_way.values():
                asked.gone.set()
                task.cancel()
            self._writers.discard(writer)
            writer.close()
            await self._change(-1, "opens")

    async def _hear(
        self,
        message: ToEngine,
        writer: asyncio.StreamWriter,
        under_way: dict[int, tuple[Asked, asyncio.Task[None]]],
    ) -> None:
        match message:
            case Submit() | Embed():
                asked = Asked(writer, message)
                self.asked.append(asked)
                under_way[message.id] = asked, asyncio.create_task(self._answer(asked))
            case Cancel(id=id):
                asked, task = under_way.pop(id)
                self.cancelled.append(asked.model)
                asked.gone.set()
                task.cancel()
            case StatsRequest():
                writer.write(frame(StatsReply(machine=Machine(), stats={})))
        await self._change()

    async def _answer(self, asked: Asked) -> None:
        try:
            with suppress(ConnectionError):
                await self._conduct(asked)
        finally:
            await self._change()

    async def _silent(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._writers.add(writer)
        await self._change(1, "silent")
        await reader.read()
        self._writers.discard(writer)
        writer.close()
        await self._change(-1, "silent")

    async def _shuts(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.close()

    async def _leaves(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(frame(Ready(models=("m",))))
        writer.close()

    async def _change(self, opened: int = 0, door: Door = "opens") -> None:
        async with self.changed:
            self.open[door] += opened
            self.changed.notify_all()


@asynccontextmanager
async def stand_ins(
    folder: Path,
    conduct: Conduct = works,
    doors: Mapping[str, Door] | None = None,
    context: ssl.SSLContext | None = None,
) -> AsyncGenerator[StandIns, None]:
    """Engines until the block ends.

    folder: of their sockets; a short path. context: they listen on TCP, too.
    """
    engines = StandIns(folder, conduct, doors or {})
    servers = await engines.start()
    if context is not None:
        servers += await engines.start_on_tcp(context)
    try:
        yield engines
    finally:
        for server in servers:
            server.close()
        engines.stop()
        await asyncio.sleep(0)
