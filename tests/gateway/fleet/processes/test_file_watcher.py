"""The file watcher survives every state of the file, and logs what it rejects."""

import asyncio
import os
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from msgspec import Struct

from strowger_gateway.gateway.config.load import load_config
from strowger_gateway.gateway.config.schema.config import Config
from strowger_gateway.gateway.fleet.processes.engine_pool import EnginePool
from strowger_gateway.gateway.fleet.processes.reload import Reload
from strowger_gateway.gateway.fleet.processes.reload_target import Proposal
from strowger_gateway.gateway.observability.telemetry.metric_snapshot import snapshot
from strowger_gateway.gateway.observability.telemetry.process_metrics import ProcessMetrics
from strowger_gateway.gateway.platform.background import keep_running
from strowger_gateway.schemas.errors import InvalidConfig

pytestmark = pytest.mark.anyio

KEYS = """
auth: {{mode: keys, keys: [{keys}]}}
providers: [{{name: a, adapter: openai, base_url: "http://127.0.0.1:9/v1", api_key: k}}]
models: [{{name: m, backends: [{{provider: a, model: m}}]}}]
"""
LEAKED, KEPT = "{name: leaked, key: key-that-leaked}", "{name: kept, key: key-that-stays}"
BOTH = KEYS.format(keys=f"{LEAKED}, {KEPT}")
WITHOUT = KEYS.format(keys=KEPT)
BOMB = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"a{level}: &a{level} [{', '.join([f'*a{level - 1}'] * 10)}]\n" for level in range(1, 9)
)
SOON_S = 60.0


class Process(Struct, eq=False):
    """A target that has no requests. broken: a bug shows as soon as it prepares anything."""

    config: Config
    rejected: bool = False
    broken: bool = False
    name: str = "the test"
    coming: Config | None = None

    async def prepare(self, proposal: Proposal) -> tuple[str, ...]:
        if self.broken:
            raise LookupError("a bug")
        self.coming = proposal.config
        return ()

    async def commit(self, number: int) -> None:
        assert self.coming is not None
        self.config = self.coming

    def discard(self, number: int) -> None:
        self.coming = None

    async def wait_old_requests(self) -> None:
        """Nothing is under way."""

    def notify_config_rejected(self, *, rejected: bool) -> None:
        self.rejected = rejected

    def keys(self) -> list[str]:
        return [key.name for key in self.config.auth.keys]


class Watched(Struct, eq=False):
    """A file that is watched."""

    file: Path
    process: Process
    metrics: ProcessMetrics

    async def until(self, true: Callable[[], bool]) -> None:
        async with asyncio.timeout(SOON_S):
            while not true():  # noqa: ASYNC110  it is a thread's doing
                await asyncio.sleep(0.01)

    def count(self, metric: str) -> float:
        """The sum of a metric's samples, without when they began."""
        return sum(
            sample.value
            for family in snapshot(self.metrics.registry)
            for sample in family.samples
            if sample.name == metric
        )


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("strowger_gateway.gateway.fleet.processes.reload.POLL_S", 0.005)


@asynccontextmanager
async def watched(folder: Path, early: str = "") -> AsyncGenerator[Watched, None]:
    """early: what the file has before the watcher first sees it."""
    file = folder / "config.yaml"
    file.write_text(BOTH)
    first = load_config(file, {})
    process, metrics = Process(first), ProcessMetrics()
    reload = Reload(
        first,
        source=file,
        read=lambda: load_config(file, {}),
        engines=EnginePool(first, folder),
        targets=lambda: (process,),
        metrics=metrics,
    )
    if early:
        file.write_text(early)
    crashed = metrics.internal_errors.count
    watching = asyncio.create_task(
        keep_running("file watcher", reload.watch, crashed, pause_s=0.005)
    )
    try:
        await asyncio.sleep(0.05)
        yield Watched(file, process, metrics)
    finally:
        watching.cancel()
        await reload.close()


def nested(file: Path) -> None:
    file.write_text("a: " + "[" * 5000 + "]" * 5000)


def bomb(file: Path) -> None:
    file.write_text(BOMB)


def huge(file: Path) -> None:
    with file.open("w") as out:
        out.truncate(64 * 1024 * 1024 * 1024)


def binary(file: Path) -> None:
    file.write_bytes(bytes(range(256)))


def directory(file: Path) -> None:
    file.unlink()
    file.mkdir()


def gone(file: Path) -> None:
    file.unlink()


def a_pipe_without_a_writer(file: Path) -> None:
    file.unlink()
    os.mkfifo(file)


def a_link_to_itself(file: Path) -> None:
    file.unlink()
    file.symlink_to(file)


@pytest.mark.usefixtures("quick")
@pytest.mark.parametrize(
    "spoil",
    [nested, bomb, huge, binary, directory, gone, a_pipe_without_a_writer, a_link_to_itself],
    ids=lambda spoil: spoil.__name__,
)
async def test_a_leaked_key_can_be_removed_after_a_file_that_is_refused(
    tmp_path: Path,
    spoil: Callable[[Path], None],
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("strowger_gateway.gateway.config.text_files.PIPE_S", 0.01)
    async with watched(tmp_path) as up:
        spoil(up.file)
        await up.until(lambda: up.process.rejected)
        refused = up.count("strowger_configuration_refused")
        before = up.process.keys()
        if up.file.is_dir():
            up.file.rmdir()
        up.file.unlink(missing_ok=True)
        up.file.write_text(WITHOUT)
        await up.until(lambda: not up.process.rejected)

        assert refused == 1
        assert before == ["leaked", "kept"]
        assert up.process.keys() == ["kept"]
        assert up.count("strowger_configuration_refused") == 0
        assert up.count("strowger_internal_errors_total") == 0
    assert "rejected, keeping the previous one" in caplog.text


@pytest.mark.usefixtures("quick")
async def test_a_file_that_changes_while_the_gateway_starts_is_read_again(tmp_path: Path) -> None:
    async with watched(tmp_path, early=WITHOUT) as up:
        before = load_config(up.file, {})
        await up.until(lambda: up.process.config == before)


@pytest.mark.usefixtures("quick")
async def test_a_bug_is_a_rejection_with_its_traceback_in_the_log_and_a_count(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with watched(tmp_path) as up:
        up.process.broken = True
        up.file.write_text(WITHOUT)
        await up.until(lambda: up.process.rejected)
        counted = up.count("strowger_internal_errors_total")
        up.process.broken = False
        up.file.write_text(WITHOUT + "\n")
        await up.until(lambda: not up.process.rejected)

        assert counted == 1
        assert up.process.keys() == ["kept"]
    assert "LookupError: a bug" in caplog.text


async def test_background_work_that_crashes_is_logged_counted_and_started_again(
    caplog: pytest.LogCaptureFixture,
) -> None:
    crashes: list[str] = []
    runs = 0

    async def work() -> None:
        nonlocal runs
        runs += 1
        if runs < 3:
            raise RecursionError("too deep")

    await keep_running("the work", work, crashes.append, pause_s=0.001)

    assert runs == 3
    assert crashes == ["the work", "the work"]
    assert "RecursionError: too deep" in caplog.text


def test_a_pipe_is_read_to_its_end_and_not_waited_for_without_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("strowger_gateway.gateway.config.text_files.PIPE_S", 0.02)
    silent = tmp_path / "silent.yaml"
    os.mkfifo(silent)
    reading, writing = os.pipe()
    os.write(writing, WITHOUT.encode())
    os.close(writing)

    with pytest.raises(InvalidConfig, match="no data from the pipe for"):
        load_config(silent, {})
    config = load_config(Path(f"/dev/fd/{reading}"), {})
    os.close(reading)

    assert [key.name for key in config.auth.keys] == ["kept"]
