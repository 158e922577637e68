"""Effect of one hostile client or backend on others: attacks in turn, while a victim works.

python -m benchmarks.isolation [NAME …] [--code CHECKOUT]

Per attack, a gateway as the row needs it (benchmarks/isolation/rows.py), and two or 200 client
keys. The victim sends small requests continuously; the attack uses another key, from its own
process. Reports per attack: the longest times of a victim's request (or of its stream's first
token) and of a `GET /healthz`, the maximum growth of the gateway's and its engine's memory, the
backends that answered the victim, and the answers that the attacker got. Exits with 1 if the victim
waits for longer than promised, is rejected or is answered by another backend, if a circuit opens,
if an attack takes more memory than promised, or if the log has a traceback. `--code` runs another
checkout of the project instead. Uses only loopback, and every attack ends without intervention.
"""

import argparse
import asyncio
import subprocess
import sys
import tempfile
import threading
from collections import Counter
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from rich.console import Console
from rich.table import Table

from benchmarks.isolation.rows import ROWS, Row
from benchmarks.isolation.subject import ROOT, Subject, running_subject
from benchmarks.isolation.victim import Seen, Victim, moved_circuits, watch_health


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(ROWS))
    parser.add_argument("--code", type=Path, default=ROOT, help="another checkout of the project")
    options = parser.parse_args()
    columns = ("attack", "victim's longest", "/healthz longest", "gateway", "engine")
    table = Table(*columns, "victim's backends", "attacker's answers", "isolated")
    good = True
    for name in options.names or ROWS:
        row = ROWS[name]
        seen = _attack(name, row, options.code.resolve())
        isolated = seen.isolated(row)
        good = good and isolated
        attacker = seen.attacker + (f"; {seen.tracebacks} tracebacks" if seen.tracebacks else "")
        cells = [
            name,
            f"{seen.longest_s:.2f} s",
            f"{seen.health_s:.2f} s",
            f"{seen.gateway_mb:+.0f} MB",
            f"{seen.engine_mb:+.0f} MB",
            ", ".join(f"{count}x {backend}" for backend, count in seen.backends.most_common()),
            attacker + "".join(f"; {one} unavailable" for one in seen.moved),
            "yes" if isolated else "NO",
        ]
        table.add_row(*cells)
        Console(stderr=True, soft_wrap=True).print(" | ".join(cells))
    Console(width=max(Console().width, 160)).print(table)
    sys.exit(0 if good else 1)


def _attack(name: str, row: Row, code: Path) -> Seen:
    with tempfile.TemporaryDirectory() as folder:
        with (
            running_subject(Path(folder), code, row) as subject,
            _attacker(name, subject.port) as attacker,
        ):
            seen = asyncio.run(_attacked(subject, row, attacker))
        errors = (Path(folder) / "stderr").read_text()
    seen.tracebacks = errors.count("Traceback (most recent")
    return seen


@contextmanager
def _attacker(name: str, port: int) -> Generator[subprocess.Popen[str]]:
    """A process that has built its requests and waits for a line before it sends them."""
    process = subprocess.Popen(
        [sys.executable, "-m", "benchmarks.isolation.attacker", name, str(port)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    with process:
        assert process.stdout is not None
        process.stdout.readline()
        yield process


async def _attacked(subject: Subject, row: Row, attacker: "subprocess.Popen[str]") -> Seen:
    seen = Seen(backends=Counter())
    victim = Victim(subject.port, row)
    await victim.prepare()
    before = subject.resident_mb()
    assert attacker.stdin is not None
    assert attacker.stdout is not None
    done = threading.Event()
    watch = threading.Thread(target=_watch_memory, args=(subject, before, seen, done))
    watch.start()
    attacker.stdin.write("go\n")
    attacker.stdin.flush()
    probes = [victim.send_until(done, seen), watch_health(subject.port, done, seen)]
    tasks = [asyncio.create_task(probe) for probe in probes]
    try:
        seen.attacker = (await asyncio.to_thread(attacker.stdout.readline)).strip()
        await asyncio.sleep(1.0)
    finally:
        done.set()
        await asyncio.gather(*tasks)
        watch.join()
    seen.moved = await moved_circuits(subject.port)
    return seen


def _watch_memory(
    subject: Subject, before: tuple[float, float], seen: Seen, done: threading.Event
) -> None:
    while not done.wait(0.05):
        gateway, engine = subject.resident_mb()
        seen.gateway_mb = max(seen.gateway_mb, gateway - before[0])
        seen.engine_mb = max(seen.engine_mb, engine - before[1])


if __name__ == "__main__":
    main()
