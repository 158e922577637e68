"""Effect of one hostile client on others: attacks in sequence, while a victim sends requests.

python -m benchmarks.isolation [NAME …] [--code CHECKOUT]

A gateway with the bundled model, one remote provider behind it as a fallback, and two client keys.
The victim sends small requests continuously; each attack uses the other key, from its own process.
Reports per attack: the longest times of a victim's request and of a `GET /healthz`, the maximum
growth of the gateway's and its engine's memory, the backends that answered the victim, and the
answers that the attacker got. Exits with 1 if the victim waits for longer than PROMISED_S, is
rejected or is answered by another backend, if an attack takes more than PROMISED_MB, or if the log
has a traceback. `--code` runs another checkout of the project instead. Uses only loopback, and
every attack ends without intervention.
"""

import argparse
import asyncio
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Generator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Final

from msgspec import Struct
from rich.console import Console
from rich.table import Table

from benchmarks.hostile import ATTACKS, GUIDED, PLAIN, send
from benchmarks.soak.subject import free_port

ROOT: Final = Path(__file__).parent.parent
PROMISED_S: Final = 0.2
PROMISED_MB: Final = 100.0
MORE_MB: Final = {"prompts-6x8mb": 250.0, "bridge-4mb": 250.0}
"""48 MB of permitted bodies, each as received, parsed, and encoded for the backend; and the child
process that tokenizes 4 MB of text in pieces, with its tokenizer."""
LONGEST_S: Final = 60.0
"""Seconds after which the requests of an attack are abandoned."""
_PAUSE_S: Final = 0.05
_CONFIG: Final = """
server: {{port: {port}, max_in_flight: 50}}
auth: {{mode: keys, keys: [
  {{name: attacker, key: attacker-key}},
  {{name: victim, key: victim-key}}]}}
providers:
  - name: here
    adapter: local
    engine: {{device: cpu, threads: 1, models: [{{name: tiny-chat, path: "bundled:tiny-chat"}}]}}
  - {{name: away, adapter: openai, base_url: "http://127.0.0.1:{provider}/v1", api_key: k}}
  - {{name: bridged, adapter: triton-tokens, base_url: "http://127.0.0.1:{provider}",
     tokenizer: {tokenizer}}}
models:
  - name: chat
    policy: in_order
    backends: [{{provider: here, model: tiny-chat}}, {{provider: away, model: a}}]
  - {{name: bridged, backends: [{{provider: bridged, model: a}}]}}
logging: {{format: json}}
"""


class Seen(Struct, kw_only=True):
    """What the victim observed during one attack. Seconds; MB."""

    longest_s: float = 0.0
    health_s: float = 0.0
    gateway_mb: float = 0.0
    engine_mb: float = 0.0
    backends: Counter[str]
    attacker: str = ""
    tracebacks: int = 0

    def isolated(self, most_mb: float) -> bool:
        """True if the victim was not affected and memory stayed within the limit."""
        return (
            max(self.longest_s, self.health_s) <= PROMISED_S
            and max(self.gateway_mb, self.engine_mb) <= most_mb
            and set(self.backends) == {"here/tiny-chat"}
            and not self.tracebacks
        )


class Subject(Struct, frozen=True, kw_only=True):
    port: int
    pid: int

    def resident_mb(self) -> tuple[float, float]:
        """Resident memory of the gateway, and of its engine with the importing process, MB."""
        return _resident_mb(self.pid), sum(_resident_mb(pid) for pid in _children(self.pid))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(ATTACKS))
    parser.add_argument("--code", type=Path, default=ROOT, help="another checkout of the project")
    options = parser.parse_args()
    columns = ("attack", "victim's longest", "/healthz longest", "gateway", "engine")
    table = Table(*columns, "victim's backends", "attacker's answers", "isolated")
    good = True
    for name in options.names or ATTACKS:
        with tempfile.TemporaryDirectory() as folder:
            with (
                _subject(Path(folder), options.code.resolve()) as subject,
                _attacker(name, subject.port) as attacker,
            ):
                seen = asyncio.run(_attacked(subject, name, attacker))
            errors = (Path(folder) / "stderr").read_text()
        seen.tracebacks = errors.count("Traceback (most recent")
        isolated = seen.isolated(MORE_MB.get(name, PROMISED_MB))
        good = good and isolated
        table.add_row(
            name,
            f"{seen.longest_s:.2f} s",
            f"{seen.health_s:.2f} s",
            f"{seen.gateway_mb:+.0f} MB",
            f"{seen.engine_mb:+.0f} MB",
            ", ".join(f"{count}x {backend}" for backend, count in seen.backends.most_common()),
            seen.attacker + (f"; {seen.tracebacks} tracebacks" if seen.tracebacks else ""),
            "yes" if isolated else "NO",
        )
        Console(stderr=True).print(f"{name}: {seen.attacker}")
    Console(width=max(Console().width, 160)).print(table)
    sys.exit(0 if good else 1)


@contextmanager
def _attacker(name: str, port: int) -> Generator[subprocess.Popen[str]]:
    """A process that has built its requests and waits for a line before it sends them."""
    process = subprocess.Popen(
        [sys.executable, "-m", "benchmarks.hostile", name, str(port)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    with process:
        assert process.stdout is not None
        process.stdout.readline()
        yield process


async def _attacked(subject: Subject, name: str, attacker: "subprocess.Popen[str]") -> Seen:
    seen = Seen(backends=Counter())
    victim = GUIDED if name == "grammars" else PLAIN
    for _ in range(20):
        await send(subject.port, "victim-key", victim)
    before = subject.resident_mb()
    assert attacker.stdin is not None
    assert attacker.stdout is not None
    done = threading.Event()
    watch = threading.Thread(target=_watch_memory, args=(subject, before, seen, done))
    watch.start()
    attacker.stdin.write("go\n")
    attacker.stdin.flush()
    probes = [_victim(subject.port, victim, seen, done), _health(subject.port, seen, done)]
    tasks = [asyncio.create_task(probe) for probe in probes]
    try:
        seen.attacker = (await asyncio.to_thread(attacker.stdout.readline)).strip()
        await asyncio.sleep(1.0)
    finally:
        done.set()
        await asyncio.gather(*tasks)
        watch.join()
    return seen


async def _victim(port: int, body: bytes, seen: Seen, done: threading.Event) -> None:
    while not done.is_set():
        started = time.perf_counter()
        try:
            status, head = await asyncio.wait_for(send(port, "victim-key", body), LONGEST_S)
        except (OSError, TimeoutError, asyncio.IncompleteReadError) as exc:
            seen.backends[type(exc).__name__] += 1
        else:
            backend = head.get("x-gateway-backend", "(no backend)")
            seen.backends[backend if status == 200 else f"{status}"] += 1
        seen.longest_s = max(seen.longest_s, time.perf_counter() - started)
        await asyncio.sleep(_PAUSE_S)


async def _health(port: int, seen: Seen, done: threading.Event) -> None:
    while not done.is_set():
        started = time.perf_counter()
        with suppress(OSError, TimeoutError, asyncio.IncompleteReadError):
            await asyncio.wait_for(send(port, "", b"", "GET /healthz"), LONGEST_S)
        seen.health_s = max(seen.health_s, time.perf_counter() - started)
        await asyncio.sleep(_PAUSE_S)


def _watch_memory(
    subject: Subject, before: tuple[float, float], seen: Seen, done: threading.Event
) -> None:
    while not done.wait(0.05):
        gateway, engine = subject.resident_mb()
        seen.gateway_mb = max(seen.gateway_mb, gateway - before[0])
        seen.engine_mb = max(seen.engine_mb, engine - before[1])


@contextmanager
def _subject(folder: Path, code: Path) -> Generator[Subject]:
    port, provider = free_port(), free_port()
    config = folder / "isolation.yaml"
    tokenizer = code / "local_engine" / "bundled" / "tiny-chat"
    config.write_text(_CONFIG.format(port=port, provider=provider, tokenizer=tokenizer))
    with ExitStack() as stack:
        errors = stack.enter_context((folder / "stderr").open("wb"))
        mock = [sys.executable, "-m", "benchmarks.soak.provider", str(provider)]
        _start(stack, mock, ROOT, errors.fileno())
        serve = [sys.executable, "-m", "gateway.cli", "serve", "--config", str(config)]
        process = _start(stack, serve, code, errors.fileno())
        _await_answer(port)
        yield Subject(port=port, pid=process.pid)


def _start(
    stack: ExitStack, command: Sequence[str], code: Path, errors: int
) -> subprocess.Popen[bytes]:
    process = subprocess.Popen(
        command,
        stdout=subprocess.DEVNULL,
        stderr=errors,
        cwd=code,
        env={**os.environ, "PYTHONPATH": str(code)},
    )
    stack.callback(process.wait)
    stack.callback(process.terminate)
    return process


def _await_answer(port: int) -> None:
    """Raises RuntimeError unless the local engine answers within 180 s."""
    end = time.monotonic() + 180
    while time.monotonic() < end:
        with suppress(OSError, asyncio.IncompleteReadError):
            status, head = asyncio.run(send(port, "victim-key", PLAIN))
            if status == 200 and head.get("x-gateway-backend", "").startswith("here"):
                return
        time.sleep(0.2)
    raise RuntimeError("the local engine does not answer within 180 s")


def _children(pid: int) -> list[int]:
    tasks = Path(f"/proc/{pid}/task")
    return [
        int(child) for task in tasks.iterdir() for child in (task / "children").read_text().split()
    ]


def _resident_mb(pid: int) -> float:
    with suppress(OSError):
        for line in Path(f"/proc/{pid}/status").read_text().splitlines():
            if line.startswith("VmRSS:"):
                return int(line.split()[1]) / 1024
    return 0.0


if __name__ == "__main__":
    main()
