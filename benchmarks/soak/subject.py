"""A gateway and its provider, each in its own process, and the gateway's memory."""

import socket
import subprocess
import sys
import time
from collections.abc import Generator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

from msgspec import Struct

_CONFIG = """
server: {{port: {port}, workers: {workers}, max_in_flight: 4096}}
providers:
  - {{name: mock, adapter: openai, base_url: "http://127.0.0.1:{provider}/v1", api_key: k,
     max_connections: 4096, timeouts: {{between_tokens_s: 60}}}}
models:
  - {{name: chat, backends: [{{provider: mock, model: a}}, {{provider: mock, model: b}}]}}
experiments:
  - name: trial
    model: chat
    assign_by: request
    primary: latency_ms
    variants:
      - {{name: control, backend: mock/a, weight: 50}}
      - {{name: treatment, backend: mock/b, weight: 50}}
store: {{url: "sqlite:///{folder}/soak.db"}}
logging: {{format: json}}
"""


class Subject(Struct, frozen=True, kw_only=True):
    """port: of the gateway. provider: its port. pid: of the gateway's main process."""

    port: int
    provider: int
    pid: int

    def resident_mb(self) -> float:
        """Resident memory of the gateway including its other processes, MB."""
        return sum(self.resident_mb_each())

    def resident_mb_each(self) -> list[float]:
        """Resident memory of the gateway's main process and of each other, MB."""
        return [_resident_kb(pid) / 1024 for pid in (self.pid, *_children(self.pid))]


@contextmanager
def subject(folder: Path, *, workers: int = 1, pinned: bool = False) -> Generator[Subject]:
    """Both processes, ready to serve. pinned: core 0 runs only the gateway's worker."""
    port, provider = free_port(), free_port()
    config = folder / "soak.yaml"
    config.write_text(_CONFIG.format(port=port, provider=provider, workers=workers, folder=folder))
    with ExitStack() as stack:
        _start(stack, [sys.executable, "-m", "benchmarks.soak.provider", str(provider)])
        serve = [
            sys.executable,
            "-m",
            "strowger_gateway.gateway.cli",
            "serve",
            "--config",
            str(config),
        ]
        process = _start(stack, ["taskset", "-c", "0", *serve] if pinned else serve)
        for one in (provider, port):
            _await_port(one)
        yield Subject(port=port, provider=provider, pid=process.pid)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def _start(stack: ExitStack, command: Sequence[str]) -> subprocess.Popen[bytes]:
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    stack.callback(process.wait)
    stack.callback(process.terminate)
    return process


def _await_port(port: int) -> None:
    end = time.monotonic() + 60
    while time.monotonic() < end:
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.05)
    raise RuntimeError(f"nothing listens on port {port} after 60 s")


def _children(pid: int) -> list[int]:
    tasks = Path(f"/proc/{pid}/task")
    return [
        int(child) for task in tasks.iterdir() for child in (task / "children").read_text().split()
    ]


def _resident_kb(pid: int) -> int:
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1])
    raise RuntimeError(f"process {pid} has no VmRSS")
