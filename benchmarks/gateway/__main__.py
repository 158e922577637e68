"""Strowger compared with nginx and with a minimal handler, in one run.

python -m benchmarks.gateway [--rounds 5] [--seconds 4]

One core runs the contender, the other one the load and the mock provider. Rounds alternate between
the contenders. Prints medians, and ratios, which are comparable between machines. CPU time is that
of the contender's process, so other load on the machine has little effect on it.
"""

import argparse
import statistics
import tempfile
from collections import defaultdict
from pathlib import Path

from rich.console import Console
from rich.progress import track
from rich.table import Table

from benchmarks.gateway.contenders import Contender, contenders
from benchmarks.gateway.load import first_token_ms, wrk
from benchmarks.gateway.mock import EVENTS

_ROWS = (
    ("cpu_request", "CPU µs per request, 64 connections", "≤ 7x nginx, ≤ 1/15 bare"),
    ("cpu_event", "CPU µs per SSE event, 64 streams", "≤ 3.5x nginx"),
    ("p50", "added p50 µs, 1 connection", "≤ 3x nginx"),
    ("first", "first token ms, 64 streams", "≤ 4 ms"),
    ("rss", "resident MB after the run", "≤ 80 MB"),
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=4)
    options = parser.parse_args()
    console = Console()
    samples: dict[tuple[str, str], list[float]] = defaultdict(list)
    with tempfile.TemporaryDirectory() as name, contenders(Path(name)) as (mock, subjects):
        folder = Path(name)
        for subject in subjects:
            wrk(folder, subject.port, connections=64, seconds=1, stream=False)
        for _ in track(range(options.rounds), "rounds", console=console):
            direct = wrk(folder, mock, connections=1, seconds=1, stream=False).p50_us
            for subject in subjects:
                for key, value in _measure(folder, subject, options.seconds, direct).items():
                    samples[subject.name, key].append(value)
        for subject in subjects:
            samples[subject.name, "rss"].append(subject.rss_mb())
    console.print(_table(samples, [subject.name for subject in subjects]))


def _measure(
    folder: Path, subject: Contender, seconds: float, direct_us: float
) -> dict[str, float]:
    before = subject.cpu_s()
    whole = wrk(folder, subject.port, connections=64, seconds=seconds, stream=False)
    between = subject.cpu_s()
    streams = wrk(folder, subject.port, connections=64, seconds=seconds, stream=True)
    after = subject.cpu_s()
    one = wrk(folder, subject.port, connections=1, seconds=1, stream=False)
    return {
        "cpu_request": (between - before) / whole.requests * 1e6,
        "cpu_event": (after - between) / (streams.requests * EVENTS) * 1e6,
        "p50": one.p50_us - direct_us,
        "first": first_token_ms(subject.port, 64),
    }


def _table(samples: dict[tuple[str, str], list[float]], names: list[str]) -> Table:
    table = Table(title="medians; in brackets the ratio to nginx")
    for column in ("", *names, "target"):
        table.add_column(column)
    for key, title, target in _ROWS:
        base = statistics.median(samples[names[0], key])
        cells = [
            f"{statistics.median(samples[name, key]):.1f} "
            f"({statistics.median(samples[name, key]) / base:.2f}x)"
            for name in names
        ]
        table.add_row(title, *cells, target)
    return table


if __name__ == "__main__":
    main()
