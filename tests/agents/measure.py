"""Run every agent with every backend; as a program, write the table of docs/agents.md.

`python -m tests.agents.measure [AGENT …]` shows what these agents do, and writes nothing.
"""

import asyncio
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from tests.agents.backends import BACKENDS, stage
from tests.agents.install import installed, named
from tests.agents.roster import Agent
from tests.agents.running import Outcome, run
from tests.agents.table import DOCUMENT, written
from tests.gateway.vendors.rows import Vendor

Cells = Mapping[tuple[str, str], Outcome]
"""By agent and backend."""


async def measure(agents: Sequence[Agent], backends: Sequence[Vendor], run_dir: Path) -> Cells:
    """Raises AssertionError with all failures."""
    cells: dict[tuple[str, str], Outcome] = {}
    async with stage(run_dir) as on:
        for agent in agents:
            for backend in backends:
                outcome = await run(agent, on, backend.name)
                cells[agent.name, backend.name] = outcome
                for fault in outcome.faults:
                    print(fault, flush=True)
            done = sum(not cells[agent.name, one.name].faults for one in backends)
            print(f"{agent.name}: {done} of {len(backends)}", flush=True)
    faults = [fault for outcome in cells.values() for fault in outcome.faults]
    assert not faults, "\n".join(faults)
    return cells


def main(names: Sequence[str]) -> None:
    agents = named(names)
    installed(agents)
    with tempfile.TemporaryDirectory() as folder:
        cells = asyncio.run(measure(agents, BACKENDS, Path(folder)))
    if not names:
        DOCUMENT.write_text(written(DOCUMENT.read_text(), cells))
    print(f"{len(cells)} runs work")


if __name__ == "__main__":
    main(sys.argv[1:])
