"""Strowger compared with nginx, with a minimal handler and with other checkouts, in one run.

python -m benchmarks.gateway [--against CHECKOUT] [--rows one-write,event] [--rounds 5]
[--seconds 4] [--verbose]

One core runs the contender, the other one the load and the mock provider. Rounds alternate between
the contenders. Prints medians, and ratios, which are comparable between machines. CPU time is that
of the contender's process and its descendants, so other load on the machine has little effect on
it. No two requests have the same body.
"""

import argparse
import os
import statistics
import sys
import tempfile
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path

from rich.console import Console
from rich.progress import track
from rich.table import Table

from benchmarks.gateway.contenders import LOAD_CORE, mocks, recipes, running
from benchmarks.gateway.rows import ROWS, Row, Sample, Setting, warm_up

_WIDTH = 160
"""Of the table in a file."""
Samples = dict[tuple[int, str], list[Sample]]
"""By number of the contender and name of the row."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--against", type=Path, action="append", default=[], metavar="CHECKOUT")
    parser.add_argument("--rows", type=_rows, default=ROWS, help=",".join(row.name for row in ROWS))
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=4)
    parser.add_argument("--verbose", action="store_true", help="spread and CPU utilisation too")
    options = parser.parse_args()
    os.sched_setaffinity(0, {int(LOAD_CORE)})
    console = Console(width=None if sys.stdout.isatty() else _WIDTH)
    names, samples = _measured(
        [one.resolve() for one in options.against],
        options.rows,
        options.rounds,
        options.seconds,
        console,
    )
    console.print(_table(options.rows, names, samples))
    if options.verbose:
        for line in _details(options.rows, names, samples):
            print(line)


def _rows(names: str) -> tuple[Row, ...]:
    by_name = {row.name: row for row in ROWS}
    unknown = [name for name in names.split(",") if name not in by_name]
    if unknown:
        raise argparse.ArgumentTypeError(f"{unknown[0]}: choose from {', '.join(by_name)}")
    return tuple(by_name[name] for name in names.split(","))


def _measured(
    against: Sequence[Path], rows: Sequence[Row], rounds: int, seconds: float, console: Console
) -> tuple[list[str], Samples]:
    """The contenders' names, and the samples. In every second round the order is reversed."""
    samples: Samples = defaultdict(list)
    with tempfile.TemporaryDirectory() as name, ExitStack() as stack:
        folder = Path(name)
        setting = Setting(mocks=stack.enter_context(mocks(folder)), seconds=seconds)
        subjects = [
            stack.enter_context(running(recipe, folder / str(number), setting.mocks))
            for number, recipe in enumerate(recipes(against))
        ]
        for subject in subjects:
            warm_up(subject)
        turns = list(enumerate(subjects))
        for _ in track(range(rounds), "rounds", console=console):
            for row in rows:
                for number, subject in () if row.at_end else turns:
                    samples[number, row.name].append(row.measure(subject, setting))
            turns.reverse()
        for row in rows:
            for number, subject in turns if row.at_end else ():
                samples[number, row.name].append(row.measure(subject, setting))
    return [subject.recipe.name for subject in subjects], samples


def _table(rows: Sequence[Row], names: Sequence[str], samples: Samples) -> Table:
    table = Table(title="medians; in brackets the ratio to nginx")
    for column in ("", *names, "target"):
        table.add_column(column)
    for row in rows:
        for place, title in enumerate(row.titles):
            medians = [
                statistics.median(sample.figures[place] for sample in samples[number, row.name])
                for number in range(len(names))
            ]
            cells = [f"{_shown(median)} ({median / medians[0]:.2f}x)" for median in medians]
            table.add_row(title, *cells, "" if place else row.target)
    return table


def _details(rows: Sequence[Row], names: Sequence[str], samples: Samples) -> Iterator[str]:
    """Lines: medians with their spread over the rounds, and medians of the details."""
    for row in rows:
        for number, name in enumerate(names):
            taken = samples[number, row.name]
            for place, title in enumerate(row.titles):
                values = [sample.figures[place] for sample in taken]
                spread = f"{_shown(min(values))}..{_shown(max(values))}"
                yield f"{title} | {name}: {_shown(statistics.median(values))} ({spread})"
            for key in taken[0].details:
                median = statistics.median(sample.details[key] for sample in taken)
                yield f"    {key}: {median:,.0f}"


def _shown(value: float) -> str:
    return f"{value:,.2f}" if abs(value) < 10 else f"{value:,.1f}"


if __name__ == "__main__":
    main()
