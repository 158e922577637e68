"""What a key with three limits and two budgets adds to a request, against the same gateway without.

`python -m benchmarks.governance_overhead [--live]` (half a minute, and two more for instructions,
which need valgrind; --live leaves them out). The bounds are 15 µs of CPU in one process and 5 % of
a request's instructions.

Live: both gateways run at the same time, with one provider on loopback, and answer turns of
requests alternately over the same number of connections. The CPU time of the gateway's process
alone counts, with all its threads. The speed of a shared processor changes within a tenth of a
second, so a round consists of many short turns of both gateways, and its difference is one value.
"""

import argparse
import asyncio
import contextlib
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Generator
from pathlib import Path
from typing import Final

from benchmarks.gateway.contenders import free_port
from benchmarks.request_instructions import ROOT, Provider, config_of, each, request_of

PLAIN: Final = "chat, whole"
GOVERNED: Final = "chat, governed"
BOUND_US: Final = 15
BOUND_SHARE: Final = 0.05
ROUNDS: Final = 14
TURNS: Final = 6
"""Turns of each gateway per round."""
REQUESTS: Final = 20
"""Requests per turn and connection."""
CONNECTIONS: Final = 32


def cpu_seconds(pid: int) -> float:
    """CPU time of all threads of a process: the clock of clock_getcpuclockid(3)."""
    return time.clock_gettime((~pid << 3) | 2)


@contextlib.contextmanager
def gateway(row: str, provider: int, folder: Path) -> Generator[tuple[int, int]]:
    """A gateway with the configuration of a row: its process and its port.

    Raises RuntimeError if it does not start.
    """
    port = free_port()
    config = folder / "bench.yaml"
    config.write_text(config_of(row, port, provider, folder))
    log = folder / "stderr"
    with log.open("wb") as stderr:
        process = subprocess.Popen(
            [sys.executable, "-m", "gateway.cli", "serve", "--config", str(config)],
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
    """Connections to one gateway, each with one request at a time."""

    def __init__(self, pid: int, port: int) -> None:
        self.pid = pid
        self._port = port
        self._request = request_of(PLAIN, port)
        self._open: list[tuple[asyncio.StreamReader, asyncio.StreamWriter]] = []

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
            writer.write(self._request)
            head = await reader.readuntil(b"\r\n\r\n")
            if not head.startswith(b"HTTP/1.1 200"):
                raise RuntimeError(head.decode())
            _, _, after = head.lower().partition(b"content-length:")
            await reader.readexactly(int(after.partition(b"\r\n")[0]))

    def close(self) -> None:
        for _, writer in self._open:
            writer.close()


async def live() -> list[tuple[float, float]]:
    """Per round, the µs of CPU per request: without limits and budgets, and with them."""
    provider = free_port()
    rounds: list[tuple[float, float]] = []
    with (
        tempfile.TemporaryDirectory() as one,
        tempfile.TemporaryDirectory() as other,
        gateway(PLAIN, provider, Path(one)) as plain,
        gateway(GOVERNED, provider, Path(other)) as governed,
    ):
        loop = asyncio.get_running_loop()
        async with await loop.create_server(Provider, "127.0.0.1", provider):
            clients = Client(*plain), Client(*governed)
            for client in clients:
                await client.connect()
            for _ in range(ROUNDS + 1):
                spent = [0.0, 0.0]
                for turn in range(TURNS):
                    for index in (0, 1) if turn % 2 else (1, 0):
                        spent[index] += await clients[index].turn()
                scale = 1e6 / (TURNS * REQUESTS * CONNECTIONS)
                rounds.append((spent[0] * scale, spent[1] * scale))
            for client in clients:
                client.close()
    return rounds[1:]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--live", action="store_true", help="count no instructions")
    options = parser.parse_args()
    rounds = asyncio.run(live())
    added = sorted(governed - plain for plain, governed in rounds)
    print(f"µs of CPU per request, gateway's process, {ROUNDS} rounds, {CONNECTIONS} connections")
    print(f"without     {statistics.median(plain for plain, _ in rounds):8.1f}")
    print(f"with        {statistics.median(governed for _, governed in rounds):8.1f}")
    low, _, high = statistics.quantiles(added, n=4)
    print(f"added       {statistics.median(added):8.1f}   (at most {BOUND_US})")
    print(f"quartiles   {low:8.1f} to {high:.1f}", flush=True)
    if options.live:
        return
    plain, governed = each(ROOT, PLAIN), each(ROOT, GOVERNED)
    print("instructions per request")
    print(f"without     {plain:8,.0f}")
    print(f"with        {governed:8,.0f}")
    share = governed / plain - 1
    print(f"added       {governed - plain:8,.0f}   {share:.1%} (at most {BOUND_SHARE:.0%})")


if __name__ == "__main__":
    main()
