"""A Ray cluster of two nodes on this machine, in a process that imports Ray so that tests do not.

Each node has two of the resource SLOT. The first line on stdout is the address. A line on stdin
ends one thing with SIGKILL and is answered with the number of processes: `engine` a process of an
engine, `actor` its keeper and nothing else, `node` the second node with all that runs there.
"""

import os
import signal
import sys
from collections.abc import Iterator
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import Protocol, cast


class _Process(Protocol):
    pid: int


class _Node(Protocol):
    all_processes: dict[str, list["_Info"]]


class _Info(Protocol):
    process: _Process


class _Cluster(Protocol):
    address: str

    def add_node(self, **more: object) -> _Node: ...
    def shutdown(self) -> None: ...


def main() -> None:
    cluster = cast(_Cluster, import_module("ray.cluster_utils").Cluster())
    each: dict[str, object] = {
        "num_cpus": 2,
        "resources": {"SLOT": 2},
        "include_dashboard": False,
    }
    cluster.add_node(**each)
    second = cluster.add_node(**each)
    raylet = second.all_processes["raylet"][0].process.pid
    print(cluster.address, flush=True)
    for line in sys.stdin:
        doomed = list(_doomed(line.strip(), raylet))
        for pid in doomed:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        print(len(doomed), flush=True)
    cluster.shutdown()


def _doomed(what: str, raylet: int) -> Iterator[int]:
    if what == "node":
        yield raylet
        yield from _under(raylet)
        return
    for pid in _under(os.getpid()):
        if b"local_engine" in _words(pid):
            yield pid if what == "engine" else _parents()[pid]
            return


def _under(pid: int) -> Iterator[int]:
    parents = _parents()
    for child, parent in parents.items():
        if parent == pid:
            yield child
            yield from _under(child)


def _parents() -> dict[int, int]:
    found: dict[int, int] = {}
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            stat = (folder / "stat").read_text().rpartition(")")[2].split()
            found[int(folder.name)] = int(stat[1])
    return found


def _words(pid: int) -> bytes:
    with suppress(OSError):
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    return b""


if __name__ == "__main__":
    main()
