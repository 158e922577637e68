"""A worker that hangs is killed and replaced, and no request waits for it any longer."""

import asyncio
import os
import signal
import socket
import sys
from asyncio.subprocess import DEVNULL
from collections.abc import AsyncGenerator
from pathlib import Path

import httpx
import pytest
from msgspec import Struct

from strowger_gateway.gateway.config.schema.config import Config
from strowger_gateway.gateway.fleet.listening.listening_socket import Listener
from strowger_gateway.gateway.fleet.processes.engine_pool import EnginePool
from strowger_gateway.gateway.fleet.processes.reload import Reload
from strowger_gateway.gateway.fleet.processes.reload_target import Proposal, Target
from strowger_gateway.gateway.fleet.processes.worker_handle import WorkerHandle
from strowger_gateway.gateway.fleet.processes.worker_pool import WorkerPool
from strowger_gateway.gateway.observability.telemetry.process_metrics import ProcessMetrics
from tests.gateway.config.configs import read
from tests.gateway.fleet.processes.leading import leading

pytestmark = pytest.mark.anyio

CONFIG = """
providers: [{{name: a, adapter: openai, base_url: "http://127.0.0.1:9/v1", api_key: k}}]
models: [{{name: {model}, backends: [{{provider: a, model: m}}]}}]
"""
HANG_S = 4.0
SOON_S = 120.0


class Led(Struct, kw_only=True, eq=False):
    """Two workers, led by the test. coming: what is read at the next reload."""

    url: str
    pool: WorkerPool
    reload: Reload
    coming: Config

    def pid(self, number: int) -> int:
        return self.pool.workers[number].process.pid

    async def models(self) -> set[str]:
        """Of each worker, by connections until both were asked."""
        found: dict[int, str] = {}
        async with asyncio.timeout(SOON_S):
            while len(found) < 2:
                async with httpx.AsyncClient(base_url=self.url, timeout=SOON_S) as client:
                    worker = (await client.get("/healthz")).json()["worker"]
                    (found[worker],) = (
                        one["id"] for one in (await client.get("/v1/models")).json()["data"]
                    )
        return set(found.values())


def config(folder: Path, model: str) -> Config:
    return read(CONFIG.format(model=model), folder=folder)


def reload_of(folder: Path, *targets: Target, prepare_s: float = SOON_S) -> Reload:
    """From one configuration to another."""
    first = config(folder, "early")
    return Reload(
        first,
        source=folder / "config.yaml",
        read=lambda: config(folder, "late"),
        engines=EnginePool(first, folder),
        targets=lambda: targets,
        metrics=ProcessMetrics(),
        prepare_s=prepare_s,
    )


@pytest.fixture(scope="module")
async def led(tmp_path_factory: pytest.TempPathFactory) -> AsyncGenerator[Led, None]:
    folder = tmp_path_factory.mktemp("led")
    first, metrics = config(folder, "early"), ProcessMetrics()
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.setblocking(False)
        pool = WorkerPool(
            Listener(sockets=(listener,)),
            folder,
            metrics,
            parts=leading(first, lambda: reload.config, metrics, folder),
            hang_s=HANG_S,
        )
        reload = Reload(
            first,
            source=folder / "config.yaml",
            read=lambda: led.coming,
            engines=EnginePool(first, folder),
            targets=pool.targets,
            metrics=metrics,
            hold_starts=pool.starts.hold,
        )
        url = f"http://127.0.0.1:{listener.getsockname()[1]}"
        led = Led(url=url, pool=pool, reload=reload, coming=config(folder, "late"))
        pool.start(2, lambda: (reload.config, (), reload.rejected))
        await pool.serving()
        yield led
        await pool.close()


async def test_a_reload_goes_on_without_a_worker_that_hangs_and_another_takes_its_place(
    led: Led, caplog: pytest.LogCaptureFixture
) -> None:
    before = await led.models()
    hanging, other = led.pid(1), led.pid(0)
    os.kill(hanging, signal.SIGSTOP)

    done = await led.reload.reload("a test")
    after = await led.models()

    assert (before, done, after) == ({"early"}, True, {"late"})
    assert f"worker 1 (process {hanging}) hangs" in caplog.text
    assert "worker 1 was killed by signal 9" in caplog.text
    assert (led.pid(0), "worker 0" in caplog.text) == (other, False)


async def test_a_gateway_with_a_hanging_worker_exits_on_sigterm(led: Led) -> None:
    os.kill(led.pid(0), signal.SIGSTOP)

    led.pool.drain()
    await asyncio.wait_for(led.pool.ended(), SOON_S)

    assert led.pool.workers == {}


class Behind:
    """A Target that has everything ready, and changes over when it is let."""

    def __init__(self) -> None:
        self.name = "worker 7"
        self.told, self.let = asyncio.Event(), asyncio.Event()

    async def prepare(self, proposal: Proposal) -> tuple[str, ...]:
        return ()

    async def commit(self, number: int) -> None:
        self.told.set()
        await self.let.wait()

    def discard(self, number: int) -> None: ...

    async def wait_old_requests(self) -> None: ...

    def notify_config_rejected(self, *, rejected: bool) -> None: ...


async def test_a_configuration_is_reported_as_applied_when_every_worker_has_switched(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    behind, late = (Behind(), Behind()), config(tmp_path, "late")
    reload = reload_of(tmp_path, *behind)
    caplog.set_level("INFO")

    reloading = asyncio.create_task(reload.reload("a test"))
    for one in behind:
        await one.told.wait()
    behind[0].let.set()
    await asyncio.sleep(0.01)
    told_early = "is in effect" in caplog.text
    behind[1].let.set()

    assert await reloading
    assert (told_early, "is in effect" in caplog.text) == (False, True)
    assert reload.config == late


async def test_a_worker_that_exits_instead_of_switching_is_not_waited_for() -> None:
    process = await asyncio.create_subprocess_exec(sys.executable, "--version", stdout=DEVNULL)
    worker = WorkerHandle(7, process)

    waiting = asyncio.create_task(worker.commit(1))
    await process.wait()
    await asyncio.sleep(0)
    waited = not waiting.done()
    worker.on_exit()

    await asyncio.wait_for(waiting, SOON_S)
    await asyncio.wait_for(worker.commit(2), SOON_S)
    assert waited


class Slow:
    """A Target that gets nothing ready."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.rejected = False

    async def prepare(self, proposal: Proposal) -> tuple[str, ...]:
        await asyncio.Event().wait()
        return ()

    async def commit(self, number: int) -> None:
        raise AssertionError("nothing was ready")

    def discard(self, number: int) -> None: ...

    async def wait_old_requests(self) -> None: ...

    def notify_config_rejected(self, *, rejected: bool) -> None:
        self.rejected = rejected


async def test_a_reload_that_takes_too_long_names_the_workers_that_were_not_ready(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    slow = Slow("worker 7")
    reload = reload_of(tmp_path, slow, prepare_s=0.1)
    first = reload.config

    done = await reload.reload("a test")

    assert (done, reload.config, slow.rejected) == (False, first, True)
    assert "worker 7 did not prepare it within 0.1 s" in caplog.text
