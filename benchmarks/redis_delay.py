"""Latency that sharing state through Redis adds: while Redis answers, hangs, and is gone.

python -m benchmarks.redis_delay [--requests 400]

Two gateways use one provider, one of them with `store.redis_url`; requests alternate between them,
so that other load slows both. Exits with 1 if Redis adds more than 5 ms to the median or to p99
(docs/promises.md, 25).
"""

import argparse
import http.client
import json
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Generator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from msgspec import Struct
from rich.console import Console
from rich.table import Table

from benchmarks.soak.subject import free_port

ADDED_MS = 5.0
NOTICED_S = 4.0
"""Seconds after which the gateway has detected the state of Redis and is in steady state."""

_CONFIG = """
server: {{port: {port}}}
providers: [{{name: mock, adapter: openai, base_url: "http://127.0.0.1:{mock}/v1", api_key: k}}]
models:
  - {{name: chat, policy: least_busy,
     backends: [{{provider: mock, model: a}}, {{provider: mock, model: b}}]}}
store: {{url: "sqlite:///{folder}/{port}.db", spool: {folder}/{port}{redis}}}
"""
_STATES = (("answers", None), ("hangs", signal.SIGSTOP), ("gone", signal.SIGKILL))
_BODY = json.dumps({"model": "chat", "messages": [{"role": "user", "content": "hi"}]})


class Delays(Struct, frozen=True, kw_only=True):
    """Milliseconds per request, without Redis and with it."""

    without: list[float]
    sharing: list[float]

    @property
    def added(self) -> tuple[float, float]:
        """Added to the median, and to p99."""
        without, sharing = (statistics.quantiles(one, n=100) for one in self.columns)
        return sharing[49] - without[49], sharing[98] - without[98]

    @property
    def columns(self) -> tuple[list[float], list[float]]:
        return self.without, self.sharing


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--requests", type=int, default=400)
    requests = parser.parse_args().requests
    program = shutil.which("redis-server")
    if program is None:
        print("Redis is not installed (on Debian: apt-get install redis-server)")
        return
    table = Table("Redis", "median ms without", "added, median", "added, p99", "target")
    good = True
    with tempfile.TemporaryDirectory() as folder, _subjects(Path(folder), program) as subjects:
        redis, ports = subjects
        for state, number in _STATES:
            for at_once in (True, False):
                if number is not None and at_once:
                    redis.send_signal(number)
                found = _delays(ports, requests)
                median, last = found.added
                good = good and max(median, last) <= ADDED_MS
                when = "immediately" if at_once else f"after {NOTICED_S:g} s"
                before = f"{statistics.median(found.without):.2f}"
                cells = (before, f"{median:+.2f}", f"{last:+.2f}", f"≤ {ADDED_MS:g} ms")
                table.add_row(f"{state}, {when}", *cells)
                time.sleep(NOTICED_S if at_once else 0)
    Console().print(table)
    sys.exit(0 if good else 1)


@contextmanager
def _subjects(
    folder: Path, program: str
) -> Generator[tuple["subprocess.Popen[bytes]", tuple[int, int]]]:
    """Redis, and the ports of a gateway without it and of one with it."""
    mock, redis, ports = free_port(), free_port(), (free_port(), free_port())
    with ExitStack() as stack:
        words = [program, "--port", str(redis), "--bind", "127.0.0.1", "--save", ""]
        server = _started(stack, [*words, "--dir", str(folder)])
        _started(stack, [sys.executable, "-m", "benchmarks.gateway.mock", str(mock)])
        for port, shared in zip(
            ports, ("", f", redis_url: 'redis://127.0.0.1:{redis}'"), strict=True
        ):
            file = folder / f"{port}.yaml"
            file.write_text(_CONFIG.format(port=port, mock=mock, folder=folder, redis=shared))
            _started(
                stack,
                [
                    sys.executable,
                    "-m",
                    "strowger_gateway.gateway.cli",
                    "serve",
                    "--config",
                    str(file),
                ],
            )
        _delays(ports, 100, patience_s=60.0)
        yield server, ports


def _started(stack: ExitStack, words: list[str]) -> "subprocess.Popen[bytes]":
    quiet = subprocess.DEVNULL
    process = subprocess.Popen(words, stdout=quiet, stderr=quiet)
    stack.callback(process.wait)
    stack.callback(process.kill)
    return process


def _delays(ports: tuple[int, int], requests: int, patience_s: float = 0.0) -> Delays:
    """patience_s: time for the gateways to start serving."""
    clients = [_connected(port, time.monotonic() + patience_s) for port in ports]
    found: tuple[list[float], list[float]] = ([], [])
    for _ in range(requests):
        for client, times in zip(clients, found, strict=True):
            began = time.perf_counter()
            client.request("POST", "/v1/chat/completions", _BODY, _HEAD)
            answer = client.getresponse()
            answer.read()
            times.append((time.perf_counter() - began) * 1e3)
            if answer.status != 200:
                raise RuntimeError(f"status {answer.status}")
    for client in clients:
        client.close()
    return Delays(without=found[0], sharing=found[1])


def _connected(port: int, until: float) -> http.client.HTTPConnection:
    while True:
        client = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
        try:
            client.connect()
        except OSError:
            if time.monotonic() > until:
                raise
            time.sleep(0.1)
        else:
            return client


_HEAD = {"content-type": "application/json"}

if __name__ == "__main__":
    main()
