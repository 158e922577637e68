"""A worker's connection, from the engine's side: a frame per step, slow readers, bad frames."""

import asyncio
import socket
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec
import pytest

from local_engine.protocol.frames import (
    Deltas,
    Failed,
    FrameReader,
    Submit,
    ToWorker,
    encode_request,
    frame,
)
from local_engine.server.connection import Connection
from local_engine.server.service import Service
from schemas.sampling import Sampling
from tests.local_engine.conftest import Folder
from tests.local_engine.services import MODEL, chat, config, serving

pytestmark = pytest.mark.anyio

ENDLESS = Sampling(temperature=0.0, ignore_eos=True, logprobs=True, top_logprobs=20)
_decode = msgspec.msgpack.Decoder[ToWorker](ToWorker).decode


class Worker:
    """A client that reads only on request."""

    def __init__(self, peer: socket.socket) -> None:
        self._peer = peer
        self._reader = FrameReader()

    async def send(self, data: bytes) -> None:
        await asyncio.get_running_loop().sock_sendall(self._peer, data)

    async def read(self) -> list[ToWorker]:
        """Return the frames of one read; none at the end of the connection."""
        data = await asyncio.get_running_loop().sock_recv(self._peer, 1 << 20)
        return [_decode(body) for body in self._reader.feed(data)]

    async def closed(self) -> bool:
        try:
            while await self.read():
                pass
        except ConnectionResetError:
            return True
        return True


@asynccontextmanager
async def connected(
    service: Service, path: Path, max_unsent: int = 1 << 20
) -> AsyncGenerator[Worker, None]:
    loop = asyncio.get_running_loop()
    server = await loop.create_unix_server(
        lambda: Connection(service, max_unsent=max_unsent), str(path)
    )
    with socket.socket(socket.AF_UNIX) as peer:
        peer.setblocking(False)
        await loop.sock_connect(peer, str(path))
        worker = Worker(peer)
        assert await worker.read() == [service.hello()]
        yield worker
    server.close()


def submit(id: int, sampling: Sampling) -> bytes:
    request = encode_request(chat("on", sampling))
    return frame(Submit(id=id, request=request, model=MODEL, request_id="", tenant=""))


async def test_one_step_is_one_frame_for_all_requests_of_a_connection(
    folder: Folder, tmp_path: Path
) -> None:
    """The four need not begin in the same step, and a frame may hold several steps."""
    sampling = Sampling(temperature=0.0, max_tokens=80, ignore_eos=True)
    frames: list[ToWorker] = []
    finished: set[int] = set()

    async with (
        serving(config(folder("llama"))) as service,
        connected(service, tmp_path / "e.sock") as worker,
    ):
        await worker.send(b"".join(submit(id, sampling) for id in range(1, 5)))
        while len(finished) < 4:
            frames += (got := await worker.read())
            deltas = [one for one in got if isinstance(one, Deltas)]
            finished |= {batch.id for one in deltas for batch in one.batches if batch.last}

    sizes = [len(one.batches) for one in frames if isinstance(one, Deltas)]
    together = [place for place, size in enumerate(sizes) if size >= 4]
    between = sizes[together[0] : together[-1] + 1]
    assert len(between) - len(together) <= len(between) / 10
    assert len(frames) < 2 * 80


async def test_a_worker_that_does_not_read_loses_its_requests_and_no_memory_grows(
    folder: Folder, tmp_path: Path
) -> None:
    async with (
        serving(config(folder("llama"))) as service,
        connected(service, tmp_path / "e.sock", max_unsent=50_000) as worker,
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


@pytest.mark.parametrize("nonsense", [b"\xff" * 8, b"\x00\x00\x00\x01\xc1"])
async def test_a_worker_that_sends_no_frames_is_cut_off(
    nonsense: bytes, folder: Folder, tmp_path: Path
) -> None:
    async with (
        serving(config(folder("llama"))) as service,
        connected(service, tmp_path / "e.sock") as worker,
    ):
        await worker.send(nonsense)

        assert await worker.closed()
