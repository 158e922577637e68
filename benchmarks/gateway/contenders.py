"""The contenders: each a separate process, pinned to one core."""

import os
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Generator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from msgspec import Struct

from benchmarks.gateway.mock import BODY

SUBJECT_CORE, LOAD_CORE = "0", "1"
KEY = "bench-key"

_HEAD = """
daemon off; master_process off; worker_processes 1; pid {dir}/nginx.pid; error_log /dev/null;
events {{ worker_connections 2048; }}
http {{
  access_log off; client_body_temp_path {dir}; proxy_temp_path {dir}; fastcgi_temp_path {dir};
  uwsgi_temp_path {dir}; scgi_temp_path {dir};
"""
_PROXY = """
  map $http_x_bench $to {{ default whole; stream stream; }}
  upstream whole {{ server 127.0.0.1:{whole}; keepalive 256; keepalive_requests 10000000; }}
  upstream stream {{ server 127.0.0.1:{stream}; keepalive 256; keepalive_requests 10000000; }}
  server {{
    listen 127.0.0.1:{port}; keepalive_requests 10000000;
    location / {{
      proxy_pass http://$to; proxy_http_version 1.1; proxy_set_header Connection "";
      proxy_buffering off;
    }}
  }}
}}
"""
_WHOLE = """
  server {{
    listen 127.0.0.1:{port}; keepalive_requests 10000000; default_type application/json;
    location / {{ return 200 '{body}'; }}
  }}
}}
"""

_STROWGER = """
server: {{port: {port}}}
auth: {{mode: keys, keys: [{{name: bench, key: {key}, models: [chat, stream]}}]}}
providers:
  - {{name: whole, adapter: openai, base_url: "http://127.0.0.1:{whole}/v1", api_key: k}}
  - {{name: stream, adapter: openai, base_url: "http://127.0.0.1:{stream}/v1", api_key: k}}
models:
  - {{name: chat, backends: [{{provider: whole, model: mock-1}}]}}
  - {{name: stream, backends: [{{provider: stream, model: mock-1}}]}}
logging: {{format: json}}
"""


class Contender(Struct, frozen=True, kw_only=True):
    name: str
    pid: int
    port: int

    def cpu_s(self) -> float:
        """CPU seconds of all threads of the process, with nanosecond resolution."""
        total = 0
        for task in Path(f"/proc/{self.pid}/task").iterdir():
            total += int((task / "schedstat").read_text().split()[0])
        return total / 1e9

    def rss_mb(self) -> float:
        for line in Path(f"/proc/{self.pid}/status").read_text().splitlines():
            if line.startswith("VmRSS:"):
                return int(line.split()[1]) / 1024
        raise RuntimeError(f"{self.name} has no VmRSS")


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


@contextmanager
def contenders(folder: Path) -> Generator[tuple[int, list[Contender]], None, None]:
    """The port of the mock for whole answers, and nginx, the bare handler and Strowger.

    Whole answers come from an nginx, so that the contender and not the mock is the bottleneck;
    streams come from benchmarks.gateway.mock.
    """
    whole, stream, ports = free_port(), free_port(), [free_port() for _ in range(3)]
    python = sys.executable
    env = {
        "BENCH_WHOLE": f"http://127.0.0.1:{whole}/v1",
        "BENCH_STREAM": f"http://127.0.0.1:{stream}/v1",
        "BENCH_PORT": str(ports[1]),
    }
    config = _STROWGER.format(whole=whole, stream=stream, port=ports[2], key=KEY)
    (folder / "strowger.yaml").write_text(config)
    proxy = _PROXY.format(whole=whole, stream=stream, port=ports[0])
    commands = {
        "nginx": _nginx(folder / "proxy", proxy),
        "Litestar + httpx": [python, "-m", "benchmarks.gateway.bare"],
        "Strowger": [
            *(python, "-m", "gateway.cli", "serve"),
            *("--config", str(folder / "strowger.yaml")),
        ],
    }
    with ExitStack() as stack:
        mock = _nginx(folder / "whole", _WHOLE.format(port=whole, body=BODY.decode()))
        _start(stack, LOAD_CORE, mock, {})
        _start(stack, LOAD_CORE, [python, "-m", "benchmarks.gateway.mock", str(stream)], {})
        _await_port(whole)
        _await_port(stream)
        started: list[Contender] = []
        for (name, command), port in zip(commands.items(), ports, strict=True):
            process = _start(stack, SUBJECT_CORE, command, env)
            _await_port(port)
            started.append(Contender(name=name, pid=process.pid, port=port))
        yield whole, started


def _nginx(folder: Path, server: str) -> list[str]:
    folder.mkdir()
    (folder / "nginx.conf").write_text(_HEAD.format(dir=folder) + server)
    binary = shutil.which("nginx") or "/usr/sbin/nginx"
    return [binary, "-p", str(folder), "-c", str(folder / "nginx.conf")]


def _start(
    stack: ExitStack, core: str, command: list[str], env: dict[str, str]
) -> subprocess.Popen[bytes]:
    process = subprocess.Popen(
        ["taskset", "-c", core, *command],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env={**os.environ, **env},
    )
    stack.callback(process.wait)
    stack.callback(process.terminate)
    return process


def _await_port(port: int) -> None:
    end = time.monotonic() + 30
    while time.monotonic() < end:
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.05)
    raise RuntimeError(f"nothing listens on port {port} after 30 s")
