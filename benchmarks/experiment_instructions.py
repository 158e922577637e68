"""Number of instructions that routing, breaker, experiment and recording add to a request.

`python -m benchmarks.experiment_instructions` (needs valgrind; two minutes): the two paths of
`benchmarks.experiment_overhead`, over all threads. Microseconds vary with other load on the
processor; instructions do not, so a change of half a percent is visible. Each path runs with few
requests and with many; the difference gives the cost of one.
"""

import asyncio
import gc
import io
import os
import re
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from itertools import product
from pathlib import Path
from typing import Final

from benchmarks.experiment_overhead import CONFIG, planner_of, within, without
from strowger_gateway.gateway.assembly.gateway import Gateway
from strowger_gateway.gateway.assembly.runtime import Runtime
from strowger_gateway.gateway.config.load import read_config
from strowger_gateway.gateway.observability.recording.recorder import FileRecorder
from strowger_gateway.gateway.observability.recording.spool import Spool
from strowger_gateway.gateway.observability.telemetry.access_log import AccessLog

FEW: Final = 1_000
"""Every user has sent a request by then, and every path has been taken."""
MANY: Final = 3_000
_TOTAL: Final = re.compile(r"Collected : (\d+)")


async def walk(path: str, requests: int, folder: Path) -> None:
    """Run one path for `requests` requests, and write everything at the end."""
    runtime = Runtime(read_config(CONFIG, source="config.yaml", env={}), run_dir=folder)
    recorder = FileRecorder(Spool(folder / "spool")) if path == "with" else None
    gateway = Gateway(runtime, AccessLog(io.BytesIO(), "json"), recorder=recorder)
    planner = planner_of(runtime.routing.experiments)
    gc.collect()
    gc.disable()
    if path == "with":
        await within(planner, gateway, requests)
    else:
        await without(gateway, requests)
    gateway.log.flush()
    gateway.log.access_log.close()
    if recorder is not None:
        recorder.close()
    await runtime.close()


def counted(path: str, requests: int) -> int:
    """Instructions of a whole process. Raises RuntimeError if valgrind reports no number."""
    command = ["valgrind", "--tool=callgrind", "--callgrind-out-file=/dev/null", sys.executable]
    run = subprocess.run(
        [*command, "-m", "benchmarks.experiment_instructions", path, str(requests)],
        check=False,
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONHASHSEED": "0"},
    )
    found = _TOTAL.search(run.stderr)
    if run.returncode or found is None:
        raise RuntimeError(run.stderr)
    return int(found[1])


def main() -> None:
    if len(sys.argv) > 1:
        _, path, requests = sys.argv
        with tempfile.TemporaryDirectory() as folder:
            asyncio.run(walk(path, int(requests), Path(folder)))
        return
    runs: list[tuple[str, int]] = list(product(("without", "with"), (FEW, MANY)))
    with ThreadPoolExecutor(2) as pool:
        found = pool.map(counted, *zip(*runs, strict=True))
        totals = dict(zip(runs, found, strict=True))

    def each(path: str) -> float:
        return (totals[path, MANY] - totals[path, FEW]) / (MANY - FEW)

    print("instructions per request, all threads")
    print(f"without     {each('without'):9,.0f}")
    print(f"with        {each('with'):9,.0f}")
    print(f"overhead    {each('with') - each('without'):9,.0f}")


if __name__ == "__main__":
    main()
