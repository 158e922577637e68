"""Run pytest in forks of one process: `python -m tests.forked WORKERS [pytest's arguments]`.

This process collects first: it imports torch, the vendors' clients and all tests, which takes 15 s
of CPU that each worker would spend otherwise. Pytest then runs as a process of its own, and
pytest-xdist starts its workers through tests/forked/worker.py: each is a fork of this process,
finds all modules imported, and shares their memory.
"""

import contextlib
import gc
import io
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Generator
from pathlib import Path

import pytest
from execnet.gateway_base import WorkerGateway, get_execmodel, init_popen_io

PYTEST = (sys.executable, "-m", "pytest")
ENVIRONMENT_BYTES = 1 << 20
END_S = 10.0
"""For the workers to exit after pytest: by then execnet has ended those that hang."""

SINGLE_THREADED = {"OMP_NUM_THREADS": "1", "TOKENIZERS_PARALLELISM": "false"}
"""A fork has none of its parent's threads, and the pools that wait for them would hang."""


def _collect(arguments: list[str]) -> bool:
    """Collect in this process, which imports all modules; return whether that succeeded."""
    environment = dict(os.environ)
    os.environ.update(SINGLE_THREADED)
    with contextlib.redirect_stdout(io.StringIO()):
        status = pytest.main(["--collect-only", "-q", *arguments])
    os.environ.clear()
    os.environ.update(environment)
    return status == pytest.ExitCode.OK


@contextlib.contextmanager
def _listening() -> Generator[tuple[socket.socket, str]]:
    folder = Path(tempfile.mkdtemp(prefix="strowger-forks-"))
    owner = os.getpid()
    try:
        with socket.socket(socket.AF_UNIX) as listener:
            address = str(folder / "socket")
            listener.bind(address)
            listener.listen()
            listener.settimeout(0.2)
            yield listener, address
    finally:
        if os.getpid() == owner:
            shutil.rmtree(folder)


def _fork(connection: socket.socket) -> int:
    """Fork for a caller; return the child's id, and 0 in the child, which has its streams."""
    environment, streams, _, _ = socket.recv_fds(connection, ENVIRONMENT_BYTES, 3)
    child = os.fork()
    if not child:
        for place, stream in enumerate(streams):
            os.dup2(stream, place)
        os.environ.clear()
        for entry in environment.split(b"\0"):
            name, _, value = entry.partition(b"=")
            os.environb[name] = value
    for stream in streams:
        os.close(stream)
    return child


def _run(workers: int, arguments: list[str]) -> int | None:
    """Run pytest and fork its workers; return its exit status, and None in each worker."""
    script = Path(__file__).with_name("worker.py")
    with _listening() as (listener, address):
        transport = f"{workers}*popen//python={sys.executable} -I -S {script} {address}"
        controller = subprocess.Popen([*PYTEST, "--tx", transport, *arguments])
        children: set[int] = set()
        while controller.poll() is None:
            with contextlib.suppress(TimeoutError):
                connection, _ = listener.accept()
                if not (child := _fork(connection)):
                    connection.detach()  # open until this process exits
                    return None
                connection.close()
                children.add(child)
            children -= _exited(children)
        deadline = time.monotonic() + END_S
        while children and time.monotonic() < deadline:
            time.sleep(0.05)
            children -= _exited(children)
        return controller.returncode


def _exited(children: set[int]) -> set[int]:
    return {child for child in children if os.waitpid(child, os.WNOHANG)[0]}


def _serve() -> None:
    """Serve xdist on the standard streams, as the `python -c` does that execnet expects."""
    sys.argv = ["-c"]
    with open(0, "rb", buffering=0, closefd=False) as source:
        source.readline()  # the source of the module that this process has imported
    streams = init_popen_io(get_execmodel("main_thread_only"))
    streams.write(b"1")
    # Two methods that only the other end has, and execnet's own server lacks them too.
    WorkerGateway(streams, id="fork", _startcount=2).serve()  # pyright: ignore[reportArgumentType]


def _compute_unicode() -> None:
    """Compute what each fork would, for two seconds in a clean clone."""
    from hypothesis.internal.charmap import intervals_from_codec  # pytest rewrites it first

    intervals_from_codec("utf-8")


def main(workers: int, arguments: list[str]) -> int:
    """Collect, run pytest in `workers` forks, and return its exit status."""
    if not _collect(arguments):
        return subprocess.call([*PYTEST, "--collect-only", "-q", *arguments])
    gc.collect()
    gc.freeze()
    _compute_unicode()
    status = _run(workers, arguments)
    if status is None:
        _serve()
        return 0
    return status


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]), sys.argv[2:]))
