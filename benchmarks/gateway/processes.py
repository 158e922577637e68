"""CPU time and memory of a contender's process and its descendants, from /proc."""

import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

_QUIET_S = 0.3


def cpu_s(pid: int) -> dict[int, float]:
    """CPU seconds so far of all threads by process, with nanosecond resolution."""
    return {one: _threads_s(one) for one in _family(pid)}


def used_s(before: Mapping[int, float], after: Mapping[int, float]) -> list[float]:
    """CPU seconds by process between two readings; the largest, the worker's, first."""
    return sorted((total - before.get(pid, 0) for pid, total in after.items()), reverse=True)


def resident_mb(pid: int) -> list[float]:
    """Resident memory by process; the largest, the worker's, first."""
    return sorted((_resident_kb(one) / 1024 for one in _family(pid)), reverse=True)


def settle(pid: int) -> None:
    """Wait until a process and its descendants have started: they use almost no CPU."""
    end = time.monotonic() + 30
    before = cpu_s(pid)
    while time.monotonic() < end:
        time.sleep(_QUIET_S)
        after = cpu_s(pid)
        if after.keys() == before.keys() and sum(used_s(before, after)) < _QUIET_S / 10:
            return
        before = after
    raise RuntimeError(f"process {pid} is still busy after 30 s without requests")


def _family(pid: int) -> list[int]:
    found = [pid]
    for one in found:
        for task in Path(f"/proc/{one}/task").iterdir():
            found += [int(child) for child in (task / "children").read_text().split()]
    return found


def _threads_s(pid: int) -> float:
    total = 0
    for task in Path(f"/proc/{pid}/task").iterdir():
        with suppress(FileNotFoundError, ProcessLookupError):  # a thread may end at any time
            total += int((task / "schedstat").read_text().split()[0])
    return total / 1e9


def _resident_kb(pid: int) -> int:
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1])
    raise RuntimeError(f"process {pid} has no VmRSS")
