"""Run agents with every backend; as a program, write the table of docs/agents.md.

`python -m tests.agents.measure [AGENT …] [BACKEND …]` writes the cells of these, by default of all.
"""

import asyncio
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from tests.agents.backends import BACKENDS, stage
from tests.agents.install import installed, named
from tests.agents.roster import Agent
from tests.agents.running import run
from tests.agents.table import DOCUMENT, Cells, note, written
from tests.gateway.vendors.rows import Vendor

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


def main(names: Sequence[str]) -> None:
    backends = [one for one in BACKENDS if one.name in names] or BACKENDS
    agents = named([name for name in names if name not in {one.name for one in backends}])
    installed(agents)
    with tempfile.TemporaryDirectory() as folder:
        cells = asyncio.run(measure(agents, backends, Path(folder)))
    DOCUMENT.write_text(written(DOCUMENT.read_text(), cells))
    print(f"{len(cells)} runs work")


if __name__ == "__main__":
    main(sys.argv[1:])
