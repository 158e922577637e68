"""A worker that cannot be started is retried, and does not delay the shutdown."""

import asyncio
import socket
import sys
from pathlib import Path

import pytest

from strowger_gateway.gateway.backends.engines.process.process import EngineProcess
from strowger_gateway.gateway.config.schema.config import Config
from strowger_gateway.gateway.fleet.listening.listening_socket import Listener
from strowger_gateway.gateway.fleet.processes.worker_pool import MAX_BACKOFF_S, WorkerPool
from strowger_gateway.gateway.observability.telemetry.process_metrics import ProcessMetrics
from strowger_gateway.local_engine.config import EngineConfig
from tests.gateway.config.configs import GOOD, read
from tests.gateway.fleet.processes.leading import leading

pytestmark = pytest.mark.anyio

SOON_S = 20.0
"""Less than the longest pause."""


@pytest.fixture(autouse=True)
def nothing_starts(monkeypatch: pytest.MonkeyPatch) -> None:
    """As on a machine that has no room for another process."""
    monkeypatch.setattr(sys, "executable", "/nowhere/python")


async def starting(
    folder: Path, caplog: pytest.LogCaptureFixture, *, times: int, backoff_s: float
) -> None:
    """Run until a worker failed to start that often, then until the pool is stopped."""
    config: Config = read(GOOD)
    metrics = ProcessMetrics()
    with socket.create_server(("127.0.0.1", 0)) as listener:
        pool = WorkerPool(
            Listener(sockets=(listener,)),
            folder,
            metrics,
            parts=leading(config, lambda: config, metrics, folder),
            backoff_s=backoff_s,
        )
        pool.start(1, lambda: (config, (), False))
        async with asyncio.timeout(SOON_S):
            while caplog.text.count("worker 0 cannot be started") < times:  # noqa: ASYNC110  a log
                await asyncio.sleep(0.01)
            pool.drain()
            await pool.ended()
            await pool.close()


async def test_a_worker(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    await starting(tmp_path, caplog, times=3, backoff_s=0.01)


async def test_the_end_waits_for_no_pause_before_a_worker_is_started(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    await starting(tmp_path, caplog, times=1, backoff_s=MAX_BACKOFF_S)


async def test_an_engine(tmp_path: Path) -> None:
    heard: list[str] = []
    async with EngineProcess("here", EngineConfig(models=()), tmp_path, backoff_s=0.01) as engine:
        engine.watch(heard.append)
        async with asyncio.timeout(SOON_S):
            while engine.restarts < 2:  # noqa: ASYNC110  it logs more than that
                await asyncio.sleep(0.01)
        state = engine.state

    assert state == "restarting"
    assert any("cannot be started" in status for status in heard)
