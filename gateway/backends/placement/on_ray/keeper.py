"""The actor that keeps one engine running on its node. Ray restarts it when it is lost.

The engine's stdin is a pipe from this process: when the actor is gone, however that came about,
the engine finishes its answers and ends, so that its device is free for the next one. Its log goes
to the actor's stderr, which Ray keeps.
"""

import os
import random
import socket
import subprocess
import sys
from collections.abc import Sequence
from threading import Event, Thread

import msgspec
from msgspec import Struct

from strowger_gateway.gateway.backends.engines.process.environment import engine_environment
from strowger_gateway.gateway.backends.placement.cluster import KeeperReport, KeeperState
from strowger_gateway.local_engine.child_process.interpreter import module_command

LISTENING, READY = "listening on ", "ready"
"""Of the engine's lines of status; see local_engine/process.py."""

FIRST_PAUSE_S, LONGEST_PAUSE_S = 1.0, 30.0
"""Between two starts of an engine that ends by itself; doubles until one is ready."""


class Job(Struct, frozen=True, kw_only=True):
    """What a keeper runs.

    config: the engine's configuration, JSON. environment: variables that it gets besides the usual
    ones. options: `--tls-cert` and so on, with files of the node. ports: to choose from; (): any.
    """

    config: str
    environment: tuple[str, ...]
    options: tuple[str, ...]
    ports: tuple[int, ...] = ()


class EngineKeeper:
    """Starts the engine, again whenever it ends by itself. Arguments and results are JSON."""

    def __init__(self, job: bytes, host: str = "") -> None:
        """job: a Job. host: where to listen; "" asks Ray for the node's address."""
        self._job = msgspec.json.decode(job, type=Job)
        self._host = host
        self._process: subprocess.Popen[bytes] | None = None
        self._state: KeeperState = "starting"
        self._address = self._detail = ""
        self._starts = 0
        self._ending = Event()
        Thread(target=self._run, name="engine", daemon=True).start()

    def report(self) -> bytes:
        """Return a KeeperReport."""
        process = self._process
        ready = self._state == "ready"
        return msgspec.json.encode(
            KeeperReport(
                state=self._state,
                address=self._address if ready else "",
                detail=self._detail,
                host=socket.gethostname(),
                starts=self._starts,
                pid=0 if process is None else process.pid,
            )
        )

    def end(self) -> None:
        """Have the engine finish its answers and end; `report` says when it has."""
        if self._state != "ended":
            self._state = "ending"
        self._ending.set()
        process = self._process
        if process is not None:
            process.terminate()

    def _run(self) -> None:
        pause_s = FIRST_PAUSE_S
        while not self._ending.is_set():
            try:
                status = self._engine()
            except OSError as exc:
                status, self._detail = 1, str(exc)
            was_ready = self._state == "ready"
            self._address = ""
            if self._ending.is_set():
                break
            self._state = "failed"
            print(f"engine ended with {status}: {self._detail}", file=sys.stderr, flush=True)
            pause_s = FIRST_PAUSE_S if was_ready else min(2 * pause_s, LONGEST_PAUSE_S)
            self._ending.wait(pause_s)
        self._state = "ended"

    def _engine(self) -> int:
        """Run one process until it ends; return its exit status."""
        host = self._host or _node_address()
        port = _free_port(host, self._job.ports)
        address = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
        process = subprocess.Popen(
            [
                *module_command("strowger_gateway.local_engine"),
                "--listen",
                address,
                *self._job.options,
            ],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=engine_environment(os.environ, self._job.environment),
            start_new_session=True,  # Ray signals the group of a worker that is gone
        )
        assert process.stdin is not None
        assert process.stdout is not None
        self._process = process
        self._starts += 1
        try:
            process.stdin.write(self._job.config.encode() + b"\n")
            process.stdin.flush()
            if self._ending.is_set():
                process.terminate()
            for line in process.stdout:
                self._note(line.decode(errors="replace").strip())
            return process.wait()
        finally:
            process.stdin.close()
            process.kill()
            process.wait()
            self._process = None

    def _note(self, line: str) -> None:
        """Take a line of the engine's status."""
        self._detail = line
        if line.startswith(LISTENING):
            self._address = line.removeprefix(LISTENING)
        elif not self._ending.is_set():
            self._state = "ready" if line == READY else "starting"


def _node_address() -> str:
    from importlib import import_module

    return str(import_module("ray.util").get_node_ip_address())


def _free_port(host: str, ports: Sequence[int]) -> int:
    """Return 0 if any port will do. Raises OSError if none is free.

    Another keeper of the node may take it while this engine loads; then the next start has another.
    """
    if not ports:
        return 0
    for port in random.sample(ports, len(ports)):
        with socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind((host, port))
            except OSError:
                continue
            return port
    raise OSError(f"listen.ports: none of {ports[0]} to {ports[-1]} is free on {host}")
