"""A process that cannot be started is tried again, and holds nobody up who wants to end."""

import asyncio
import socket
import sys
from pathlib import Path

import pytest

from gateway.config.model import Config
from gateway.engines import EngineProcess
from gateway.processes.crew import Crew
from gateway.telemetry.process_metrics import ProcessMetrics
from gateway.trials.history import Past
from local_engine.config import EngineConfig
from tests.gateway.config.configs import GOOD, read

pytestmark = pytest.mark.anyio


@pytest.fixture(autouse=True)
def nothing_starts(monkeypatch: pytest.MonkeyPatch) -> None:
    """As on a machine that has no room for another process."""
    monkeypatch.setattr(sys, "executable", "/nowhere/python")


async def test_a_worker(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    config: Config = read(GOOD)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        crew = Crew(listener, tmp_path, ProcessMetrics(), past=Past)
        crew.start(1, lambda: (config, (), False))
        async with asyncio.timeout(10):
            while caplog.text.count("worker 0 cannot be started") < 2:  # noqa: ASYNC110  a log
                await asyncio.sleep(0.01)
            began = asyncio.get_running_loop().time()
            crew.drain()
            await crew.ended()
            await crew.close()

    assert asyncio.get_running_loop().time() - began < 0.9


async def test_an_engine(tmp_path: Path) -> None:
    heard: list[str] = []
    async with EngineProcess("here", EngineConfig(models=()), tmp_path, backoff_s=0.01) as engine:
        engine.watch(heard.append)
        async with asyncio.timeout(10):
            while engine.restarts < 2:  # noqa: ASYNC110  it tells of more than that
                await asyncio.sleep(0.01)
        state = engine.state

    assert state == "restarting"
    assert any("cannot be started" in status for status in heard)
