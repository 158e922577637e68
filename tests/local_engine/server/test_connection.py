"""A worker's connection, from the engine's side: a frame per step, slow readers, bad frames.

Over a Unix socket, and over TCP with mutual TLS.
"""

import asyncio
import socket
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

import msgspec
import pytest

from strowger_gateway.gateway.backends.engines.link.places import EnginePlace
from strowger_gateway.local_engine.protocol.frames import (
    SLOW_WORKER,
    Deltas,
    Failed,
    FrameReader,
    Submit,
    ToWorker,
    encode_request,
    frame,
)
from strowger_gateway.local_engine.server.connection import Connection
from strowger_gateway.local_engine.server.service import Service
from strowger_gateway.schemas.sampling import Sampling
from tests.gateway.backends.engines.link.transports import TRANSPORTS, place_of
from tests.local_engine.conftest import Folder
from tests.local_engine.services import MODEL, chat, config, serving

pytestmark = pytest.mark.anyio

ENDLESS = Sampling(temperature=0.0, ignore_eos=True, logprobs=True, top_logprobs=20)
_decode = msgspec.msgpack.Decoder[ToWorker](ToWorker).decode


LITTLE = 4096
"""Bytes that a worker buffers of what it has not read."""


class Worker:
    """A client that reads only on request."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._incoming, self._writer = reader, writer
        self._reader = FrameReader()

    async def send(self, data: bytes) -> None:
        self._writer.write(data)
        await self._writer.drain()

    async def read(self) -> list[ToWorker]:
        """Return the frames of one read; none at the end of the connection."""
        data = await self._incoming.read(1 << 20)
        return [_decode(body) for body in self._reader.feed(data)]

    async def closed(self) -> bool:
        try:
            while await self.read():
                pass
        except ConnectionResetError:
            return True
        return True


@pytest.fixture(params=TRANSPORTS)
def transport(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@asynccontextmanager
async def connected(
    transport: str, service: Service, folder: Path, max_unsent: int = 1 << 20
) -> AsyncGenerator[Worker, None]:
    made = partial(LittleSent, service, max_unsent=max_unsent)
    async with place_of(transport, made, folder) as place:
        reader, writer = await opened(place)
        worker = Worker(reader, writer)
        assert await worker.read() == [service.hello()]
        yield worker
        writer.transport.abort()


class LittleSent(Connection):
    """The kernel would otherwise keep 4 MB of a TCP connection that is not read."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        peer: socket.socket = transport.get_extra_info("socket")
        peer.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, LITTLE)
        super().connection_made(transport)


async def opened(place: EnginePlace) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    pair: list[tuple[asyncio.StreamReader, asyncio.StreamWriter]] = []

    def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        pair.append((reader, writer))

    protocol = asyncio.StreamReaderProtocol(asyncio.StreamReader(limit=LITTLE), connected)
    await place.open(lambda: protocol)
    return pair[0]


def submit(id: int, sampling: Sampling) -> bytes:
    request = encode_request(chat("on", sampling))
    return frame(Submit(id=id, request=request, model=MODEL, request_id="", tenant=""))


async def test_one_step_is_one_frame_for_all_requests_of_a_connection(
    transport: str, folder: Folder, tmp_path: Path
) -> None:
    """The four need not begin in the same step, and a frame may hold several steps."""
    steps = 80
    sampling = Sampling(temperature=0.0, max_tokens=steps, ignore_eos=True)
    frames: list[ToWorker] = []
    finished: set[int] = set()

    async with (
        serving(config(folder("llama"))) as service,
        connected(transport, service, tmp_path) as worker,
    ):
        await worker.send(b"".join(submit(id, sampling) for id in range(1, 5)))
        while len(finished) < 4:
            frames += (got := await worker.read())
            deltas = [one for one in got if isinstance(one, Deltas)]
            finished |= {batch.id for one in deltas for batch in one.batches if batch.last}

    sizes = [len(one.batches) for one in frames if isinstance(one, Deltas)]
    together = [place for place, size in enumerate(sizes) if size >= 4]
    between = sizes[together[0] : together[-1] + 1]
    assert len(between) - len(together) <= steps / 10
    assert len(frames) < 2 * steps


async def test_a_worker_that_does_not_read_loses_its_requests_and_no_memory_grows(
    transport: str, folder: Folder, tmp_path: Path
) -> None:
    async with (
        serving(config(folder("llama"))) as service,
        connected(transport, service, tmp_path, max_unsent=50_000) as worker,
    ):
        await worker.send(b"".join(submit(id, ENDLESS) for id in range(1, 9)))
        stopped = False
        for _ in range(3000):
            await asyncio.sleep(0.01)
            stats = service.stats()[MODEL]
            stopped = stats.steps > 0 and stats.running == stats.waiting == 0
            if stopped:
                break
        failures: list[Failed] = []
        while len(failures) < 8:
            failures += [one for one in await worker.read() if isinstance(one, Failed)]

        assert stopped
        assert {failure.id for failure in failures} == set(range(1, 9))
        assert {failure.kind for failure in failures} == {"UpstreamBroken"}
        assert {failure.code for failure in failures} == {SLOW_WORKER}


@pytest.mark.parametrize("nonsense", [b"\xff" * 8, b"\x00\x00\x00\x01\xc1"])
async def test_a_worker_that_sends_no_frames_is_cut_off(
    transport: str, nonsense: bytes, folder: Folder, tmp_path: Path
) -> None:
    async with (
        serving(config(folder("llama"))) as service,
        connected(transport, service, tmp_path) as worker,
    ):
        await worker.send(nonsense)

        assert await worker.closed()
