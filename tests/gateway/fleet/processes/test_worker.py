"""A worker and the leader, over their socket."""

import asyncio
import gc
import io
import socket
from collections.abc import AsyncGenerator, Generator
from pathlib import Path

import pytest
from msgspec import Struct

from strowger_gateway.gateway.fleet.processes.channel import Channel
from strowger_gateway.gateway.fleet.processes.messages import (
    Prepare,
    PrepareResult,
    Preparing,
    ToLeader,
    ToWorker,
    WorkerInit,
    WorkerReady,
    to_leader,
    to_worker,
)
from strowger_gateway.gateway.fleet.processes.worker import Worker
from strowger_gateway.gateway.observability.telemetry.access_log import AccessLog
from tests.gateway.config.configs import read

pytestmark = pytest.mark.anyio

CONFIG = """
providers: [{name: a, adapter: openai, base_url: "http://127.0.0.1:9/v1", api_key: k}]
models: [{name: chat, backends: [{provider: a, model: m}]}]
"""


@pytest.fixture
def memory() -> Generator[None, None, None]:
    """A worker settles its process's memory; this one goes on."""
    before = gc.get_threshold()
    yield
    gc.unfreeze()
    gc.set_threshold(*before)


class Followed(Struct, frozen=True, kw_only=True, eq=False):
    """A worker in this process, and its leader's end of their socket."""

    leader: Channel[ToLeader]
    begin: WorkerInit
    running: asyncio.Task[None]


@pytest.fixture
async def worker(memory: None, tmp_path: Path) -> AsyncGenerator[Followed, None]:
    ours, theirs = socket.socketpair()
    leader: Channel[ToLeader] = Channel(to_leader)
    channel: Channel[ToWorker] = Channel(to_worker)
    await leader.connect(ours)
    await channel.connect(theirs)
    config = read(CONFIG, folder=tmp_path)
    begin = WorkerInit(worker=0, config=config, engines=(), run_dir=bytes(tmp_path))
    listener = socket.create_server(("127.0.0.1", 0))
    listener.setblocking(False)

    running = asyncio.create_task(
        Worker(begin, channel, AccessLog(io.BytesIO(), "json")).run(listener)
    )
    yield Followed(leader=leader, begin=begin, running=running)
    leader.close()
    await asyncio.wait_for(running, 60)
    channel.close()


@pytest.mark.parametrize("why", ["the leader is gone", "a bug of ours"])
async def test_a_worker_without_a_leader_exits_even_while_it_starts(
    why: str, worker: Followed, caplog: pytest.LogCaptureFixture
) -> None:
    """The bug: a message that must not be sent twice."""
    first = await worker.leader.next()
    if why == "a bug of ours":
        worker.leader.send(worker.begin)
    else:
        worker.leader.close()
    await asyncio.wait_for(worker.running, 60)

    assert isinstance(first, WorkerReady)
    assert (
        "internal error in this worker" if why == "a bug of ours" else "lost the leader"
    ) in caplog.text


async def test_a_worker_reports_that_it_prepares_a_configuration_before_it_blocks(
    worker: Followed,
) -> None:
    worker.leader.send(Prepare(number=1, config=worker.begin.config, engines=()))

    heard: list[type] = []
    while PrepareResult not in heard:
        heard.append(type(await worker.leader.next()))

    steps = [WorkerReady, Preparing, PrepareResult]  # parts ask and tell in between
    assert [one for one in heard if one in steps] == steps
