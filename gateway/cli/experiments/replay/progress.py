"""What a replay shows while it works: a bar on a terminal, and lines otherwise."""

import sys
import time
from collections.abc import Generator
from contextlib import contextmanager
from typing import Final

import click
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from strowger_gateway.gateway.cli.terminal_output import unguarded, without_controls
from strowger_gateway.gateway.experiments.replay.spending import NANOS, Bound, Spent
from strowger_gateway.gateway.experiments.replay.work import ReplayProgress

_EVERY_S: Final = 10.0
"""Between two lines."""


def spent_words(spent: Spent, bound: Bound) -> str:
    """Say what is spent, of what may be."""
    words: list[str] = []
    if bound.nanos is not None:
        most = bound.nanos / NANOS
        shown = f"{most:.2f}" if round(most, 2) == most else f"{most:g}"
        words.append(f"${spent.nanos / NANOS:.4f} of ${shown}")
    elif spent.nanos:
        words.append(f"${spent.nanos / NANOS:.4f}")
    if bound.tokens is not None:
        words.append(f"{spent.tokens:,} of {bound.tokens:,} tokens")
    return ", ".join(words)


def waiting_words(seconds: float, why: str) -> str:
    return f"waits {seconds:.0f} s: {without_controls(why)}"


class Lines:
    """Prints a line to standard error, every few seconds."""

    def __init__(self, pairs: int, bound: Bound) -> None:
        self._pairs = pairs
        self._bound = bound
        self._due = time.monotonic() + _EVERY_S

    def decided(self, decided: int, spent: Spent) -> None:
        now = time.monotonic()
        if now >= self._due:
            self._due = now + _EVERY_S
            told = f"{decided:,} of {self._pairs:,} pairs; {spent_words(spent, self._bound)}"
            click.echo(told, err=True)

    def waits(self, seconds: float, why: str) -> None:
        """See ReplayProgress."""
        click.echo(waiting_words(seconds, why), err=True)


class Bar:
    def __init__(self, progress: Progress, pairs: int, bound: Bound) -> None:
        self._progress = progress
        self._bound = bound
        self._task = progress.add_task("pairs", total=pairs, spent="")

    def decided(self, decided: int, spent: Spent) -> None:
        words = spent_words(spent, self._bound)
        self._progress.update(self._task, completed=decided, spent=words)

    def waits(self, seconds: float, why: str) -> None:
        """See ReplayProgress."""
        self._progress.console.print(waiting_words(seconds, why), markup=False)


@contextmanager
def shown_progress(pairs: int, bound: Bound) -> Generator[ReplayProgress]:
    """Show the progress of a run with so many pairs."""
    if not sys.stderr.isatty():
        yield Lines(pairs, bound)
        return
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[spent]}"),
        TimeRemainingColumn(),
    )
    console = Console(file=unguarded(sys.stderr), highlight=False)
    with Progress(*columns, console=console) as progress:
        yield Bar(progress, pairs, bound)
