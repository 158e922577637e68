"""Run agents with every backend, and with all their jobs; as a program, write docs/agents.md.

`python -m tests.agents.measure [AGENT …] [BACKEND …] [JOB …]` writes the cells of these, by default
of all. Naming backends and no jobs leaves the table of jobs as it is, and the other way round.
"""

import asyncio
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from tests.agents import jobs_table
from tests.agents.backends import BACKENDS, REASONS, Stage, stage
from tests.agents.install import installed, named
from tests.agents.jobs import JOBS, Job
from tests.agents.roster import Agent
from tests.agents.running import Outcome, run
from tests.agents.table import DOCUMENT, Cells, note, written
from tests.gateway.backends.vendors.rows import Vendor
from tests.oracle.oracle import ORACLE

AT_ONCE: Final = 2
"""Runs of an agent with different backends, which wait for little but the processor."""


async def measure(agents: Sequence[Agent], backends: Sequence[Vendor], run_dir: Path) -> Cells:
    """Raises AssertionError with all failures."""
    cells: dict[tuple[str, str], str] = {}
    faults: list[str] = []
    turns = asyncio.Semaphore(AT_ONCE)

    async def one(agent: Agent, backend: Vendor) -> None:
        async with turns:
            outcome = await run(agent, on, backend.name)
        cells[agent.name, backend.name] = note(outcome)
        faults.extend(outcome.faults)

    async with stage(run_dir) as on:
        for agent in agents:
            await asyncio.gather(*(one(agent, backend) for backend in backends))
            print(f"{agent.name}: {len(faults)} faults so far", flush=True)
    assert not faults, "\n".join(faults)
    return cells


async def do(agent: Agent, job: Job, on: Stage) -> dict[str, Outcome]:
    """Let an agent do a job with all three backends at the same time."""
    outcomes = [run(agent, on, backend, job) for backend in jobs_table.BACKENDS]
    return dict(zip(jobs_table.BACKENDS, await asyncio.gather(*outcomes), strict=True))


async def measure_jobs(
    agents: Sequence[Agent], jobs: Sequence[Job], run_dir: Path
) -> jobs_table.Cells:
    """Raises AssertionError with all failures."""
    cells: dict[tuple[str, str], str] = {}
    faults: list[str] = []
    three = [one for one in BACKENDS if one.name in jobs_table.BACKENDS]
    async with stage(run_dir, three, REASONS) as on:
        for agent in agents:
            for job in [one for one in jobs if one.name in agent.jobs]:
                outcomes = await do(agent, job, on)
                cells[agent.name, job.name] = jobs_table.note(agent, job, outcomes)
                wrong = [fault for one in outcomes.values() for fault in one.faults]
                faults += [f"{job.name}: {one}" for one in wrong]
                print(f"{agent.name}, {job.name}: {len(wrong)} faults", flush=True)
    assert not faults, "\n".join(faults)
    return cells


def main(names: Sequence[str]) -> None:
    """Judge what reached the vendors by tests/oracle, too."""
    some = [one for one in BACKENDS if one.name in names]
    jobs = [one for one in JOBS if one.name in names]
    chosen = {one.name for one in some} | {one.name for one in jobs}
    agents = named([name for name in names if name not in chosen])
    installed(agents)
    document = DOCUMENT.read_text()
    with tempfile.TemporaryDirectory() as folder:
        if some or not jobs:
            everywhere = [one for one in agents if one.everywhere]
            cells = asyncio.run(measure(everywhere, some or BACKENDS, Path(folder)))
            document = written(document, cells)
        if jobs or not some:
            done = asyncio.run(measure_jobs(agents, jobs or JOBS, Path(folder)))
            document = jobs_table.written(document, done)
    refused = {str(one) for one in ORACLE.judge()}
    assert not refused, "\n".join(refused)
    DOCUMENT.write_text(document)


if __name__ == "__main__":
    main(sys.argv[1:])
