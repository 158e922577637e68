"""Measure many families, each in a process of its own with limits of time and memory.

The processes are forks of one that has imported torch and transformers and has no model.
"""

import multiprocessing
import os
import tempfile
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final, Protocol

import msgspec

from tests.local_engine.families.measure import CPU_S, Outcome, limit_process, measure

LONGEST_S: Final = 4.0 * CPU_S
"""Wall-clock time of one family: the cores may be shared."""

SINGLE_THREADED: Final = {"OMP_NUM_THREADS": "1", "TOKENIZERS_PARALLELISM": "false"}


class _Receiver(Protocol):
    def poll(self, timeout: float, /) -> bool: ...
    def recv_bytes(self) -> bytes: ...


class _Sender(Protocol):
    def send_bytes(self, buf: bytes, /) -> None: ...


def sweep(
    families: Sequence[str], *, processes: int = 2, report: Callable[[Outcome], None]
) -> list[Outcome]:
    """Return the outcomes in the order of `families`; `report` receives each when it is there."""
    os.environ.update(SINGLE_THREADED)
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["tests.local_engine.families.measure"])

    def one(family: str) -> Outcome:
        ours, theirs = context.Pipe(duplex=False)
        process = context.Process(target=_measure, args=(family, theirs))
        process.start()
        theirs.close()
        outcome = _received(family, ours)
        process.join(5)
        if process.is_alive():
            process.kill()
            process.join()
        report(outcome)
        return outcome

    with ThreadPoolExecutor(processes) as pool:
        return list(pool.map(one, families))


def _received(family: str, end: _Receiver) -> Outcome:
    """Return what the process sends, or that it has not sent anything."""
    try:
        if end.poll(LONGEST_S):
            return msgspec.json.decode(end.recv_bytes(), type=Outcome)
        problem = f"the process took longer than {LONGEST_S:.0f} s"
    except EOFError:
        problem = "the process ended without an outcome"
    return Outcome(family=family, kind="crash", detail=problem)


def _measure(family: str, end: _Sender) -> None:
    limit_process()
    with tempfile.TemporaryDirectory() as folder:
        end.send_bytes(msgspec.json.encode(measure(family, Path(folder))))
