"""An engine whose step does not return ends, so that it can restart."""

import asyncio
import sys
from contextlib import aclosing
from pathlib import Path
from threading import Event

import msgspec
import pytest

from strowger_gateway.gateway.backends.engines.link.places import UnixPlace
from strowger_gateway.gateway.backends.upstream.base import Call
from strowger_gateway.gateway.backends.upstream.local_engine import LocalUpstream
from strowger_gateway.local_engine.config import ModelConfig
from strowger_gateway.local_engine.execution.watchdog import Pulse, Watchdog
from strowger_gateway.schemas.errors import UpstreamLost
from strowger_gateway.schemas.sampling import Sampling
from tests.local_engine.conftest import Folder
from tests.local_engine.services import chat, config

SHORT = Sampling(temperature=0.0, max_tokens=2, ignore_eos=True)
LIMIT_S, SOON_S = 1.0, 120.0


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


class Listener:
    def __init__(self) -> None:
        self.lines: list[str] = []
        self.reported = Event()

    def __call__(self, line: str) -> None:
        self.lines.append(line)
        self.reported.set()


def test_a_step_that_takes_too_long_is_reported_once_with_its_model() -> None:
    pulse, listener = Pulse(), Listener()
    watchdog = Watchdog(pulse, limit_s=0.05, hung=listener)
    watchdog.start()

    pulse.begin("tiny")

    assert listener.reported.wait(SOON_S)
    watchdog.stop()
    (line,) = listener.lines
    assert "tiny" in line
    assert "step_timeout_s" in line


def test_a_step_may_take_its_whole_time_and_no_more() -> None:
    clock, listener = Clock(), Listener()
    pulse = Pulse(clock)
    watchdog = Watchdog(pulse, limit_s=60, hung=listener)
    pulse.begin("tiny")

    hangs: list[bool] = []
    for clock.now in (1000.0, 1030.0, 1060.0, 1060.5):
        hangs.append(watchdog.check())

    assert hangs == [False, False, False, True]
    assert len(listener.lines) == 1


def test_many_short_steps_and_long_pauses_are_not_a_hang() -> None:
    clock, listener, looks = Clock(), Listener(), list[float]()
    pulse = Pulse(clock)
    watchdog = Watchdog(pulse, limit_s=60, hung=listener, tick=lambda: looks.append(clock.now))

    for _ in range(10):
        pulse.begin("tiny")
        clock.now += 40
        watchdog.check()
        pulse.end()
        clock.now += 1
    clock.now += 3600
    watchdog.check()

    assert listener.lines == []
    assert len(looks) == 11


@pytest.mark.anyio
@pytest.mark.filterwarnings("ignore::ResourceWarning")
async def test_a_hanging_device_fails_its_requests_and_ends_the_process_with_a_clear_line(
    folder: Folder, tmp_path: Path
) -> None:
    models = tuple(ModelConfig(name=name, path=str(folder("llama"))) for name in ("well", "hangs"))
    settings = msgspec.structs.replace(
        config(folder("llama"), models=models), step_timeout_s=LIMIT_S, threads=1
    )
    path = tmp_path / "engine.sock"
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "tests.local_engine.stand_ins.hanging", "--socket", str(path)),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(msgspec.json.encode(settings) + b"\n")
    async with asyncio.timeout(SOON_S):
        while await process.stdout.readline() != b"ready\n":
            assert process.returncode is None
    upstream = LocalUpstream("here", UnixPlace(path))

    answered = await ask(upstream, "well")
    with pytest.raises(UpstreamLost, match="here: the connection to the engine is lost"):
        await ask(upstream, "hangs")
    _, log = await process.communicate()
    await upstream.aclose()

    assert answered > 0
    assert process.returncode == 1
    assert b"engine: a step of model hangs has not returned within 1 s" in log
    assert b"hanging.py" in log, "the stack shows where it hangs"


async def ask(upstream: LocalUpstream, model: str) -> int:
    """Return the number of batches."""
    deadline = asyncio.get_running_loop().time() + SOON_S
    call = Call(model=model, deadline=deadline, request_id="r", tenant="")
    async with aclosing(upstream.generate(chat("hello", SHORT), call)) as batches:
        return len([batch async for batch in batches])
