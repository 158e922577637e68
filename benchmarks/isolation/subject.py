"""The gateway under attack, in its own processes, and its memory."""

import asyncio
import os
import subprocess
import sys
import time
from collections.abc import Generator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Final

from msgspec import Struct

from benchmarks.checkouts import module_in
from benchmarks.isolation.requests import send
from benchmarks.isolation.rows import Row
from benchmarks.isolation.setups import SETUPS
from benchmarks.soak.subject import free_port

ROOT: Final = Path(__file__).parent.parent.parent


class Subject(Struct, frozen=True, kw_only=True):
    port: int
    pid: int

    def resident_mb(self) -> tuple[float, float]:
        """Resident memory of the gateway, and of its engine with the importing process, MB."""
        return _resident_mb(self.pid), sum(_resident_mb(pid) for pid in _children(self.pid))


@contextmanager
def running_subject(folder: Path, code: Path, row: Row) -> Generator[Subject]:
    """Run the row's gateway with its providers; its standard error goes to `folder`/stderr."""
    setup = SETUPS[row.setup]
    port, provider, first, hostile = [free_port() for _ in range(4)]
    config = folder / "isolation.yaml"
    tokenizer = code / "local_engine" / "bundled" / "tiny-chat"
    text = setup.config(
        port=port, provider=provider, first=first, hostile=hostile, tokenizer=str(tokenizer)
    )
    config.write_text(text.replace("FOLDER", str(folder)))
    with ExitStack() as stack:
        errors = stack.enter_context((folder / "stderr").open("wb"))
        # The hostile one in a process of its own: the victim would wait while it builds an answer.
        for mock, at in (("soak", provider), ("isolation", first), ("isolation", hostile)):
            command = [sys.executable, "-m", f"benchmarks.{mock}.provider", str(at)]
            _start(stack, command, ROOT, errors.fileno())
        serve = [
            sys.executable,
            "-m",
            module_in(code, "gateway.cli"),
            "serve",
            "--config",
            str(config),
        ]
        if setup.descriptors:
            limited = f'ulimit -n {setup.descriptors} && exec "$@"'
            serve = ["sh", "-c", limited, "sh", *serve]
        process = _start(stack, serve, code, errors.fileno())
        _await_answer(port, row, process)
        yield Subject(port=port, pid=process.pid)


def _start(
    stack: ExitStack,
    command: Sequence[str],
    code: Path,
    errors: int,
) -> subprocess.Popen[bytes]:
    process = subprocess.Popen(
        command,
        stdout=subprocess.DEVNULL,
        stderr=errors,
        cwd=code,
        env={**os.environ, "PYTHONPATH": str(code)},
    )
    stack.callback(process.wait)
    stack.callback(process.terminate)
    return process


def _await_answer(port: int, row: Row, gateway: subprocess.Popen[bytes]) -> None:
    """Raises RuntimeError unless the row's backend answers within 180 s."""
    end = time.monotonic() + 180
    while time.monotonic() < end:
        if gateway.poll() is not None:
            raise RuntimeError(f"the gateway exits with status {gateway.returncode}")
        with suppress(OSError, asyncio.IncompleteReadError):
            answer = asyncio.run(send(port, "victim-key", row.victim))
            backend = answer.headers.get("x-gateway-backend", "")
            if answer.status == 200 and backend == row.backend:
                return
        time.sleep(0.2)
    raise RuntimeError(f"{row.backend} does not answer within 180 s")


def _children(pid: int) -> list[int]:
    tasks = Path(f"/proc/{pid}/task")
    return [
        int(child) for task in tasks.iterdir() for child in (task / "children").read_text().split()
    ]


def _resident_mb(pid: int) -> float:
    with suppress(OSError):
        for line in Path(f"/proc/{pid}/status").read_text().splitlines():
            if line.startswith("VmRSS:"):
                return int(line.split()[1]) / 1024
    return 0.0
