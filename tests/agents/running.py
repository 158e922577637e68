"""Run an agent headless: in an empty home, offline but for this machine, within a time limit."""

import asyncio
import os
import tempfile
from pathlib import Path
from typing import Final, cast

from msgspec import Struct

from strowger_gateway.adapters.gemini.messages import SKIPPED
from tests.agents.backends import Stage
from tests.agents.jobs import FILES, Job
from tests.agents.roster import Agent
from tests.agents.starting import Run
from tests.agents.trouble import STATUSES, Trouble
from tests.gateway.commanded import SOON_S

LIMIT_S: Final = 300.0
BRIEF_S: Final = 2.0
"""The gateway's own retries of a single backend last at least half as long."""

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


async def run(agent: Agent, stage: Stage, backend: str, job: Job = FILES) -> Outcome:
    """Let an agent do a job with one backend's model."""
    trouble = Trouble(
        thinks_s=job.thinks_s,
        outage_s=job.outage_s,
        statuses=tuple([one for one in STATUSES if not gives_up(agent, job, one)]),
    )
    stage.troubles[backend] = trouble
    logged = len(stage.gateway.access)
    received = stage.servers[backend].requests
    asked = len(received)
    misread = len(stage.faults[backend])
    with tempfile.TemporaryDirectory() as folder:
        home, work = Path(folder) / "home", Path(folder) / "work"
        home.mkdir()
        work.mkdir()
        job.prepare(work)
        output, wrong = await execute(
            agent, Run(url=stage.gateway.url, model=backend, home=home, work=work, job=job)
        )
        wrong += [] if wrong else job.faults(work, output)
    wrong += _unmet(job, trouble)
    wrong += stage.faults[backend][misread:]
    requests = received[asked:]
    lines = await _logged(stage, backend, logged, len(requests))
    return Outcome(
        faults=tuple(f"{agent.name} -> {backend}: {one}" for one in wrong),
        dropped=tuple(sorted({name for line in lines for name in _dropped(line)})),
        unsigned=any(SKIPPED.encode() in one.body for one in requests),
    )


def gives_up(agent: Agent, job: Job, status: int) -> bool:
    """Whether an outage with this status is longer than the agent's own retries last."""
    return status in agent.gives_up and job.outage_s > BRIEF_S


def _unmet(job: Job, trouble: Trouble) -> list[str]:
    """Say so where the vendor's trouble did not come about."""
    if job.thinks_s and not trouble.thought:
        return ["the model did not think, or the request was given up meanwhile"]
    if job.outage_s and len(trouble.begun) < len(trouble.statuses):
        return [f"the vendor failed in {len(trouble.begun)} steps only"]
    return []


async def execute(agent: Agent, run: Run) -> tuple[str, list[str]]:
    """The output, and what is wrong with the run."""
    started = await asyncio.to_thread(agent.start, run)
    limit_s = LIMIT_S + run.job.thinks_s + 8 * run.job.outage_s
    env = {"PATH": os.environ["PATH"], "HOME": str(run.home), "LANG": "C.UTF-8"}
    process = await asyncio.create_subprocess_exec(
        *started.command,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
        cwd=run.work,
        env={**env, **OFFLINE, "JOB": run.job.name, **started.env},
    )
    try:
        data, _ = await asyncio.wait_for(process.communicate(), limit_s)
    except TimeoutError:
        return "", [f"not done within {limit_s:.0f} s"]
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
            if (
                sum(len(cast("list[object]", line.get("attempts", ()))) for line in lines)
                >= requests
            ):
                return lines
            await asyncio.sleep(0.02)


def _dropped(line: dict[str, object]) -> list[str]:
    return cast("list[str]", line.get("dropped", []))
