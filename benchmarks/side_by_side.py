"""Gateways that run at the same time and answer turns of requests alternately.

The CPU time of a gateway's process alone counts, with all its threads. The speed of a shared
processor changes within a tenth of a second, so a round consists of many short turns of every
gateway, and its differences are one value each.
"""

import asyncio
import contextlib
import os
import subprocess
import sys
import time
from collections.abc import Callable, Generator
from pathlib import Path
from typing import Final

from benchmarks.gateway.contenders import free_port
from benchmarks.request_instructions import ROOT, request_of

PLAIN: Final = "chat, whole"
REQUESTS: Final = 20
"""Requests per turn and connection."""
CONNECTIONS: Final = 32


def cpu_seconds(pid: int) -> float:
    """CPU time of all threads of a process: the clock of clock_getcpuclockid(3)."""
    return time.clock_gettime((~pid << 3) | 2)


@contextlib.contextmanager
def gateway(config_of: Callable[[int, Path], str], folder: Path) -> Generator[tuple[int, int]]:
    """A gateway with the configuration for a port and a folder: its process and its port."""
    port = free_port()
    config = folder / "bench.yaml"
    config.write_text(config_of(port, folder))
    log = folder / "stderr"
    with log.open("wb") as stderr:
        process = subprocess.Popen(
            [
                sys.executable,
                "-m",
                "strowger_gateway.gateway.cli",
                "serve",
                "--config",
                str(config),
            ],
            stdout=subprocess.DEVNULL,
            stderr=stderr,
            cwd=ROOT,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
        )
    try:
        yield process.pid, port
    finally:
        process.terminate()
        process.wait()
        if process.returncode:
            sys.stderr.write(log.read_text())


class Client:
    """Connections to one gateway, each with one request at a time. seconds: of each request."""

    def __init__(self, pid: int, port: int) -> None:
        self.pid = pid
        self._port = port
        self._request = request_of(PLAIN, port)
        self._open: list[tuple[asyncio.StreamReader, asyncio.StreamWriter]] = []
        self.seconds: list[float] = []

    async def connect(self) -> None:
        """Raises ConnectionError if the gateway does not listen within a minute."""
        end = time.monotonic() + 60
        while len(self._open) < CONNECTIONS:
            try:
                self._open.append(await asyncio.open_connection("127.0.0.1", self._port))
            except ConnectionError:
                if time.monotonic() > end:
                    raise
                await asyncio.sleep(0.1)

    async def turn(self) -> float:
        """Seconds of CPU of the gateway for a turn. Raises RuntimeError unless all are 200s."""
        began = cpu_seconds(self.pid)
        await asyncio.gather(*[self._send(*one) for one in self._open])
        return cpu_seconds(self.pid) - began

    async def _send(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        for _ in range(REQUESTS):
            began = time.perf_counter()
            writer.write(self._request)
            head = await reader.readuntil(b"\r\n\r\n")
            if not head.startswith(b"HTTP/1.1 200"):
                raise RuntimeError(head.decode())
            _, _, after = head.lower().partition(b"content-length:")
            await reader.readexactly(int(after.partition(b"\r\n")[0]))
            self.seconds.append(time.perf_counter() - began)

    def close(self) -> None:
        for _, writer in self._open:
            writer.close()
