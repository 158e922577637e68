"""Run an agent headless: in an empty home, offline but for this machine, within a time limit."""

import asyncio
import os
import tempfile
from pathlib import Path
from typing import Final, cast

from msgspec import Struct

from adapters.gemini.messages import SKIPPED
from tests.agents.backends import Stage
from tests.agents.play import faults, prepare
from tests.agents.roster import Agent, Run
from tests.gateway.commanded import SOON_S

LIMIT_S: Final = 120.0
NOWHERE: Final = "http://127.0.0.1:9"
"""A proxy that does not exist: nothing beyond this machine is reachable."""

OFFLINE: Final = {
    **dict.fromkeys(("HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy"), NOWHERE),
    **dict.fromkeys(("NO_PROXY", "no_proxy"), "127.0.0.1,localhost"),
}


class Outcome(Struct, frozen=True, kw_only=True):
    """faults: none if the work is done. dropped: fields that the gateway left out and named.

    unsigned: the agent does not return Gemini's signatures; Google gets its placeholder.
    """

    faults: tuple[str, ...]
    dropped: tuple[str, ...] = ()
    unsigned: bool = False


async def run(agent: Agent, stage: Stage, backend: str) -> Outcome:
    """Let an agent do the task with one backend's model."""
    logged = len(stage.gateway.access)
    received = stage.servers[backend].requests
    asked = len(received)
    misread = len(stage.faults[backend])
    with tempfile.TemporaryDirectory() as folder:
        home, work = Path(folder) / "home", Path(folder) / "work"
        home.mkdir()
        work.mkdir()
        prepare(work)
        output, wrong = await _execute(
            agent, Run(url=stage.gateway.url, model=backend, home=home, work=work)
        )
        wrong += [] if wrong else faults(work, output)
    wrong += stage.faults[backend][misread:]
    requests = received[asked:]
    lines = await _logged(stage, backend, logged, len(requests))
    return Outcome(
        faults=tuple(f"{agent.name} -> {backend}: {one}" for one in wrong),
        dropped=tuple(sorted({name for line in lines for name in _dropped(line)})),
        unsigned=any(SKIPPED.encode() in one.body for one in requests),
    )


async def _execute(agent: Agent, run: Run) -> tuple[str, list[str]]:
    """The output, and what is wrong with the run."""
    started = agent.start(run)
    env = {"PATH": os.environ["PATH"], "HOME": str(run.home), "LANG": "C.UTF-8"}
    process = await asyncio.create_subprocess_exec(
        *started.command,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
        cwd=run.work,
        env={**env, **OFFLINE, **started.env},
    )
    try:
        data, _ = await asyncio.wait_for(process.communicate(), LIMIT_S)
    except TimeoutError:
        return "", [f"not done within {LIMIT_S:.0f} s"]
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    output = data.decode(errors="replace")
    wrong = [f"status {process.returncode}: {output[-3000:]}"] if process.returncode else []
    return output, wrong


async def _logged(stage: Stage, model: str, since: int, requests: int) -> list[dict[str, object]]:
    """The access log's lines of a run, which the gateway writes shortly after the answers."""
    async with asyncio.timeout(SOON_S):
        while True:
            lines = [line for line in stage.gateway.access[since:] if line.get("model") == model]
            if sum("attempts" in line for line in lines) >= requests:
                return lines
            await asyncio.sleep(0.02)


def _dropped(line: dict[str, object]) -> list[str]:
    return cast("list[str]", line.get("dropped", []))
