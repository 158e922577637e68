"""What only a long run shows: memory growth, abandoned streams, a thousand concurrent streams.

python -m benchmarks.soak [--requests 1000000] [--aborts 10000] [--streams 1000] [--workers 1]

All features are enabled: routing over two backends, an experiment, usage records in SQLite, metrics
and the access log. First it compares the memory after requests and abandoned streams with the level
after a warm-up. Then it measures the delay that the gateway adds to the events of many concurrent
streams. Exits with 1 if promise 21 or 22 of docs/promises.md does not hold.
"""

import argparse
import asyncio
import sys
import tempfile
from pathlib import Path

import uvloop
from rich.console import Console
from rich.progress import Progress

from benchmarks.soak.load import Late, ask, leave, listen, streams_open
from benchmarks.soak.subject import Subject, subject

WARM_UP = 50_000, 500
"""Requests and abandoned streams before the reference level is measured."""

GROWTH = 0.05
ADDED_S = 0.1
EVENTS, OVER_S = 100, 10.0
"""Events per stream, and the seconds within which all concurrent streams begin."""

_GONE_S = 2.0


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--requests", type=int, default=1_000_000)
    parser.add_argument("--aborts", type=int, default=10_000)
    parser.add_argument("--streams", type=int, default=1_000)
    parser.add_argument("--workers", type=int, default=1)
    options = parser.parse_args()
    console = Console()
    with (
        tempfile.TemporaryDirectory() as folder,
        subject(Path(folder), workers=options.workers) as gateway,
        Progress(console=console) as progress,
    ):
        kept = uvloop.run(_memory(gateway, options.requests, options.aborts, progress))
        flowed = uvloop.run(_crowd(gateway, options.streams, progress))
    sys.exit(0 if kept and flowed else 1)


async def _memory(gateway: Subject, requests: int, aborts: int, progress: Progress) -> bool:
    sent = progress.add_task("requests", total=WARM_UP[0] + requests)
    left = progress.add_task("abandoned streams", total=WARM_UP[1] + aborts)
    levels: list[float] = []
    for some, streams in (WARM_UP, (requests, aborts)):
        await ask(gateway.port, some, on_done=lambda: progress.advance(sent))
        await leave(gateway.port, streams, on_done=lambda: progress.advance(left))
        await asyncio.sleep(_GONE_S)
        levels.append(gateway.resident_mb())
    still = await streams_open(gateway.provider)
    growth = levels[1] / levels[0] - 1
    kept = growth <= GROWTH and still == 0
    progress.console.print(
        f"{requests:,} requests and {aborts:,} abandoned streams after {WARM_UP[0]:,} and "
        f"{WARM_UP[1]:,}: {levels[0]:.1f} → {levels[1]:.1f} MB, {growth:+.1%} "
        f"(at most {GROWTH:+.0%}); {still} streams still open at the provider (0)"
    )
    return kept


async def _crowd(gateway: Subject, streams: int, progress: Progress) -> bool:
    found: list[Late] = []
    for name, port in (
        ("without the gateway", gateway.provider),
        ("through the gateway", gateway.port),
    ):
        task = progress.add_task(f"{streams:,} streams {name}", total=None)
        found.append(await listen(port, streams, events=EVENTS, over_s=OVER_S))
        progress.update(task, total=1, completed=1)
    straight, through = found
    added = {share: through.at(share) - straight.at(share) for share in (0.5, 0.99)}
    progress.console.print(
        f"{streams:,} concurrent streams, {len(through.delays):,} events: "
        f"{added[0.5] * 1e3:.1f} ms added to the median, {added[0.99] * 1e3:.1f} to p99 "
        f"(at most {ADDED_S * 1e3:.0f}); {through.broken} of them broken (0)"
    )
    return added[0.99] <= ADDED_S and through.broken == 0


if __name__ == "__main__":
    main()
