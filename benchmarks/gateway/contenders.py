"""The contenders: each a separate process, and the two mocks of a provider behind them."""

import os
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Generator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

from msgspec import Struct

from benchmarks.checkouts import module_in
from benchmarks.gateway.mock import BODY, COMPLETION, TOKENS
from benchmarks.gateway.processes import settle
from benchmarks.gateway.requests import KEY

SUBJECT_CORE, LOAD_CORE, ALL_CORES = "0", "1", "0,1"
ROOT = Path(__file__).parent.parent.parent

_HEAD = """
daemon off; master_process {master}; worker_processes {workers}; pid {dir}/nginx.pid;
error_log /dev/null; events {{ worker_connections 2048; }}
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
    location = /v1/completions {{ return 200 '{completion}'; }}
    location = /infer_token {{ return 200 '{tokens}'; }}
  }}
}}
"""
_STROWGER = """
server: {{port: {port}, workers: {workers}}}
auth: {{mode: keys, keys: [{{name: bench, key: {key}, models: [chat, stream]}}]}}
providers:
  - {{name: whole, adapter: openai, base_url: "http://127.0.0.1:{whole}/v1", api_key: k}}
  - {{name: stream, adapter: openai, base_url: "http://127.0.0.1:{stream}/v1", api_key: k}}
models:
  - {{name: chat, backends: [{{provider: whole, model: mock-1}}]}}
  - {{name: stream, backends: [{{provider: stream, model: mock-1}}]}}
logging: {{format: json}}
"""


class Mocks(Struct, frozen=True, kw_only=True):
    """Ports. Whole answers come from an nginx, so that the contender is the bottleneck; streams
    come from benchmarks.gateway.mock.
    """

    whole: int
    stream: int


class Place(Struct, frozen=True, kw_only=True):
    """What a contender is started with. folder: new and empty, for its files.

    checkout: where its code is.
    """

    folder: Path
    port: int
    workers: int
    mocks: Mocks
    checkout: Path


class Recipe(Struct, frozen=True, kw_only=True):
    """How to start a contender. command: writes its files and returns its command.

    checkout: where its code is.
    """

    name: str
    command: Callable[[Place], Sequence[str]]
    checkout: Path = ROOT


class Contender(Struct, frozen=True, kw_only=True):
    """A contender that runs. pid: of its first process."""

    recipe: Recipe
    pid: int
    port: int


def recipes(against: Sequence[Path]) -> list[Recipe]:
    """nginx, the bare handler, this checkout and the others, which are named by their commits."""
    return [
        Recipe(name="nginx", command=_proxy),
        Recipe(name="Litestar + httpx", command=_bare),
        Recipe(name="Strowger", command=_strowger),
        *(Recipe(name=_commit(one), command=_strowger, checkout=one) for one in against),
    ]


@contextmanager
def mocks(folder: Path) -> Generator[Mocks]:
    whole = free_port()
    answers = {"body": BODY, "completion": COMPLETION, "tokens": TOKENS}
    config = _WHOLE.format(port=whole, **{name: one.decode() for name, one in answers.items()})
    with ExitStack() as stack:
        _start(stack, LOAD_CORE, _nginx(folder / "whole", 1, config), ROOT, {})
        stream = stack.enter_context(stream_mock())
        await_port(whole)
        yield Mocks(whole=whole, stream=stream)


@contextmanager
def stream_mock() -> Generator[int]:
    """The port of benchmarks.gateway.mock, which sends whole answers too."""
    port = free_port()
    with ExitStack() as stack:
        command = [sys.executable, "-m", "benchmarks.gateway.mock", str(port)]
        _start(stack, LOAD_CORE, command, ROOT, {})
        await_port(port)
        yield port


@contextmanager
def running(
    recipe: Recipe, folder: Path, mocks: Mocks, *, cores: str = SUBJECT_CORE, workers: int = 1
) -> Generator[Contender]:
    """A contender that is ready. folder: is made for its files."""
    place = Place(
        folder=folder,
        port=free_port(),
        workers=workers,
        mocks=mocks,
        checkout=recipe.checkout,
    )
    folder.mkdir()
    env = {
        "BENCH_WHOLE": f"http://127.0.0.1:{mocks.whole}/v1",
        "BENCH_STREAM": f"http://127.0.0.1:{mocks.stream}/v1",
        "BENCH_PORT": str(place.port),
        "BENCH_WORKERS": str(workers),
    }
    with ExitStack() as stack:
        process = _start(stack, cores, recipe.command(place), recipe.checkout, env)
        await_port(place.port)
        settle(process.pid)
        yield Contender(recipe=recipe, pid=process.pid, port=place.port)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def await_port(port: int) -> None:
    end = time.monotonic() + 30
    while time.monotonic() < end:
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.05)
    raise RuntimeError(f"nothing listens on port {port} after 30 s")


def _proxy(place: Place) -> list[str]:
    ports = {"whole": place.mocks.whole, "stream": place.mocks.stream, "port": place.port}
    return _nginx(place.folder / "proxy", place.workers, _PROXY.format(**ports))


def _bare(_: Place) -> list[str]:
    return [sys.executable, "-m", "benchmarks.gateway.bare"]


def _strowger(place: Place) -> list[str]:
    config = place.folder / "strowger.yaml"
    config.write_text(
        _STROWGER.format(
            port=place.port,
            workers=place.workers,
            key=KEY,
            whole=place.mocks.whole,
            stream=place.mocks.stream,
        )
    )
    return serve_command(config, place.checkout)


def serve_command(config: Path, checkout: Path = ROOT) -> list[str]:
    """Return the command that serves a configuration, if it is run in the checkout's folder."""
    cli = module_in(checkout, "gateway.cli")
    return [sys.executable, "-m", cli, "serve", "--config", str(config)]


def _nginx(folder: Path, workers: int, server: str) -> list[str]:
    folder.mkdir()
    head = _HEAD.format(dir=folder, workers=workers, master="on" if workers > 1 else "off")
    (folder / "nginx.conf").write_text(head + server)
    binary = shutil.which("nginx") or "/usr/sbin/nginx"
    return [binary, "-p", str(folder), "-c", str(folder / "nginx.conf")]


def _commit(checkout: Path) -> str:
    command = ["git", "-C", str(checkout), "rev-parse", "--short", "HEAD"]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


def _start(
    stack: ExitStack, cores: str, command: Sequence[str], checkout: Path, env: dict[str, str]
) -> subprocess.Popen[bytes]:
    process = subprocess.Popen(
        ["taskset", "-c", cores, *command],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        cwd=checkout,
        env={**os.environ, "PYTHONPATH": str(checkout), **env},
    )
    stack.callback(process.wait)
    stack.callback(process.terminate)
    return process
