"""What gateways on TCP leave unfinished is bounded: bytes of all together, and time."""

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from typing import cast

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from strowger_gateway.gateway.backends.upstream.base import Call
from strowger_gateway.gateway.backends.upstream.engine_link import EngineLink
from strowger_gateway.local_engine.listening.tcp_listener import Listening, TcpListener, warnings_of
from strowger_gateway.local_engine.protocol.frame_intake import ConnectionIntake, FrameIntake
from strowger_gateway.local_engine.protocol.frames import (
    Cancel,
    Embed,
    FrameReader,
    Ready,
    Submit,
    ToEngine,
    frame,
)
from strowger_gateway.local_engine.protocol.mutual_tls import TlsPaths
from strowger_gateway.local_engine.server.connection import Connection
from strowger_gateway.local_engine.server.service import Service
from strowger_gateway.schemas.errors import BodyTooLarge
from strowger_gateway.schemas.holdings import Holder
from strowger_gateway.schemas.requests import EmbeddingsRequest
from strowger_gateway.schemas.sampling import Sampling
from tests.local_engine.listening.ports import HERE
from tests.local_engine.services import chat

pytestmark = pytest.mark.anyio

_decode = msgspec.msgpack.Decoder[ToEngine](ToEngine).decode
LONGEST = 1024 * 1024
Opened = tuple[asyncio.StreamReader, asyncio.StreamWriter]


class Hello:
    """The part of a service that a connection without requests uses."""

    def hello(self) -> Ready:
        return Ready(models=("m",))


class Engine:
    """A listener without TLS, with its log."""

    def __init__(self, frame_s: float, connections: int) -> None:
        self.said: list[str] = []
        self.intake = FrameIntake(LONGEST, frame_s=frame_s)
        self.listener = TcpListener(
            Listening(address=HERE, connections=connections), self._made, self.said.append
        )
        self.opened: list[Opened] = []

    @property
    def claimed(self) -> int:
        return self.intake.shares.holdings.used

    async def connect(self, host: str = "127.0.0.1") -> Opened:
        """Connect from this address, and wait until the engine has greeted."""
        where = self.listener.address
        reader, writer = await asyncio.open_connection(where.host, where.port, local_addr=(host, 0))
        self.opened.append((reader, writer))
        assert await reader.read(1)
        return reader, writer

    async def until(self, happened: Callable[[], object]) -> None:
        async with asyncio.timeout(60):
            while not happened():  # noqa: ASYNC110  nothing notifies of it
                await asyncio.sleep(0.005)

    def _made(self) -> Connection:
        service = cast(Service, Hello())
        return Connection(service, intake=self.intake, report=self.said.append)


@asynccontextmanager
async def engine(*, frame_s: float = 60.0, connections: int = 64) -> AsyncGenerator[Engine]:
    found = Engine(frame_s, connections)
    accepting = asyncio.create_task(found.listener.serve())
    try:
        yield found
    finally:
        for _, writer in found.opened:
            writer.transport.abort()
        accepting.cancel()
        found.listener.close()


def begun(length: int, sent: int) -> bytes:
    """Return the beginning of a frame of this length."""
    return length.to_bytes(4, "big") + bytes(sent)


async def ended(reader: asyncio.StreamReader) -> bool:
    try:
        async with asyncio.timeout(60):
            while await reader.read(65536):
                pass
    except ConnectionResetError:
        return True
    return True


async def test_a_frame_longer_than_a_request_closes_the_connection_before_it_arrives() -> None:
    async with engine() as port:
        reader, writer = await port.connect()
        writer.write(begun(LONGEST + 1, 0))

        assert await ended(reader)
        assert port.claimed == 0
    assert "127.0.0.1: its frames cannot be read: a frame has 1048577 bytes" in port.said[0]


async def test_unfinished_frames_of_one_address_are_bounded_and_leave_room_for_others() -> None:
    async with engine() as port:
        for _ in range(6):
            _, writer = await port.connect()
            writer.write(begun(LONGEST, LONGEST // 2))
        await port.until(lambda: port.claimed == 2 * (LONGEST + 4))

        reader, writer = await port.connect("127.0.0.2")
        body = frame(Cancel(id=1))
        writer.write(begun(300_000, 299_999))
        await port.until(lambda: port.claimed == 2 * (LONGEST + 4) + 300_004)
        writer.write(b"\0" + body)

        # What it sent is not a message, but it was read to its end.
        assert await ended(reader)
        assert port.claimed == 2 * (LONGEST + 4)
        assert "its frames cannot be read" in port.said[0]


async def test_a_connection_that_waits_for_room_goes_on_when_another_ends() -> None:
    async with engine() as port:
        opened = [await port.connect() for _ in range(4)]
        for _, writer in opened:
            writer.write(begun(LONGEST, LONGEST - 1))
        await port.until(lambda: port.claimed == 2 * (LONGEST + 4))

        for _, writer in opened[:2]:
            writer.transport.abort()
        await port.until(lambda: len(port.listener.connections) == 2)
        for _, writer in opened[2:]:
            writer.write(b"\0")

        assert all([await ended(reader) for reader, _ in opened[2:]])
        await port.until(lambda: port.claimed == 0)


@pytest.mark.parametrize("sent", [b"\0", begun(100, 5), begun(LONGEST, LONGEST // 2)])
async def test_a_frame_that_does_not_end_in_time_closes_its_connection(sent: bytes) -> None:
    async with engine(frame_s=0.3) as port:
        reader, writer = await port.connect()
        writer.write(sent)

        assert await ended(reader)
        await port.until(lambda: port.claimed == 0)
    assert port.said == ["closed a connection from 127.0.0.1: a frame took more than 0.3 s"]


async def test_slow_bytes_do_not_give_a_frame_more_time() -> None:
    async with engine(frame_s=0.3) as port:
        reader, writer = await port.connect()
        writer.write(begun(100_000, 0))
        ending = asyncio.create_task(ended(reader))
        for _ in range(1000):
            if ending.done():
                break
            writer.write(b"\0")
            await asyncio.sleep(0.01)

        assert await ending


async def test_an_idle_connection_and_whole_frames_have_no_time_limit() -> None:
    async with engine(frame_s=0.05) as port:
        _, writer = await port.connect()
        for _ in range(5):
            writer.write(frame(Cancel(id=1)))
            await asyncio.sleep(0.05)

        assert len(port.listener.connections) == 1
        assert port.said == []


async def test_an_address_with_all_connections_loses_one_to_another_address() -> None:
    async with engine(connections=8) as port:
        first = [await port.connect() for _ in range(8)]

        reader, _ = await port.connect("127.0.0.2")

        assert b"models" in await reader.read(200)
        assert len(port.listener.connections) == 8
        assert await ended(first[-1][0])
    assert port.said == ["refused a connection from 127.0.0.1: it has 8 of 8 connections"]


async def test_a_gateway_refuses_a_request_that_the_engine_would_not_read() -> None:
    """The connection, and the requests of others on it, go on."""
    async with engine() as port:
        where = port.listener.address
        loop = asyncio.get_running_loop()
        link = EngineLink("here")
        await loop.create_connection(lambda: link, where.host, where.port)
        await link.ready
        request = chat("a" * LONGEST, Sampling())
        call = Call(model="m", deadline=loop.time() + 60, request_id="r", tenant="t")

        with pytest.raises(BodyTooLarge, match=r"its limit of 1048576 .*--max-request-bytes"):
            await link.submit(request, call).take(call.deadline)

        assert link.alive
        link.close()


async def test_the_key_and_its_team_reach_the_engine_with_each_request() -> None:
    """Its turns depend on both."""
    received: list[ToEngine] = []
    loop = asyncio.get_running_loop()

    class Peer(asyncio.Protocol):
        frames = FrameReader()

        def connection_made(self, transport: asyncio.BaseTransport) -> None:
            cast(asyncio.Transport, transport).write(frame(Ready(models=("m",))))

        def data_received(self, data: bytes) -> None:
            received.extend(map(_decode, self.frames.feed(data)))

    server = await loop.create_server(Peer, "127.0.0.1", 0)
    link = EngineLink("here")
    await loop.create_connection(lambda: link, *server.sockets[0].getsockname())
    await link.ready
    call = Call(model="m", deadline=0.0, request_id="r", tenant="key", holder=Holder("key", "team"))
    link.submit(chat("a", Sampling()), call)
    link.embed(EmbeddingsRequest(model="m", inputs=("a",)), call)
    async with asyncio.timeout(60):
        while len(received) < 2:  # noqa: ASYNC110  nothing notifies of it
            await asyncio.sleep(0.005)
    link.close()
    server.close()

    submit, embed = received
    assert isinstance(submit, Submit)
    assert isinstance(embed, Embed)
    assert (submit.tenant, submit.team) == (embed.tenant, embed.team) == ("key", "team")


def test_an_engine_warns_that_any_certificate_of_the_authority_may_connect() -> None:
    tls = TlsPaths(cert="c", key="k", ca="a")

    (line,) = warnings_of(Listening(address=HERE, tls=tls))

    assert "--tls-allow" in line
    assert warnings_of(Listening(address=HERE, tls=tls, allow=("gateway",))) == ()
    assert warnings_of(Listening(address=HERE)) == ()


class Transport:
    """A transport that notes whether it reads."""

    reading = True

    def pause_reading(self) -> None:
        assert self.reading
        self.reading = False

    def resume_reading(self) -> None:
        assert not self.reading
        self.reading = True

    def is_closing(self) -> bool:
        return False


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 1000)), max_size=60))
async def test_claims_add_up_and_whoever_waits_is_served(moves: list[tuple[int, int]]) -> None:
    """Six connections of three peers; each move begins, ends or abandons a frame."""
    intake = FrameIntake(1_000_000)
    transports = [Transport() for _ in range(6)]
    connections = [
        ConnectionIntake(intake, transport, f"peer-{place // 2}", lambda: None)
        for place, transport in enumerate(transports)
    ]
    finished = [0] * 6
    for place, size in moves:
        # A connection that is not read sends nothing; it may only close.
        if not transports[place].reading:
            if size < 100:
                connections[place].close()
                transports[place].reading = True
            continue
        finished[place] += 1
        connections[place].note(finished[place], size * 1000)
        holdings = intake.shares.holdings
        assert holdings.used <= holdings.total
        assert bool(intake.shares.queue) == any(not one.reading for one in transports)

    for connection in connections:
        connection.close()
    assert intake.shares.holdings.used == 0
    assert not intake.shares.queue
