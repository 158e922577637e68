"""What `strowger store copy` shows while it works: a bar on a terminal, and lines otherwise."""

import sys
import time
from collections.abc import Generator
from contextlib import contextmanager
from typing import Final

import click
from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    ProgressColumn,
    Task,
    TextColumn,
    TimeRemainingColumn,
)
from rich.text import Text

from strowger_gateway.gateway.cli.terminal_output import unguarded
from strowger_gateway.gateway.storage.copying.copy import CopyProgress

_EVERY_S: Final = 10.0
"""Between two lines."""


class CopyLines:
    """Prints a line for each pass to standard error, and every few seconds within it."""

    def __init__(self) -> None:
        self._words, self._total, self._rows = "", 0, 0
        self._began = self._due = 0.0

    def phase(self, words: str, rows: int) -> None:
        """See CopyProgress."""
        self._words, self._total, self._rows = words, rows, 0
        self._began = time.monotonic()
        self._due = self._began + _EVERY_S
        click.echo(f"{words}: {rows:,} rows", err=True)

    def rows(self, table: str, count: int) -> None:
        """See CopyProgress."""
        self._rows += count
        now = time.monotonic()
        if now < self._due:
            return
        self._due = now + _EVERY_S
        rate = self._rows / (now - self._began)
        left = max(0, self._total - self._rows) / rate if rate else 0.0
        click.echo(
            f"{self._words}: {self._rows:,} of {self._total:,} rows, {rate:,.0f}/s, "
            f"{left:,.0f} s left ({table})",
            err=True,
        )


class _Rate(ProgressColumn):
    def render(self, task: Task) -> Text:
        speed = task.finished_speed or task.speed
        return Text("" if speed is None else f"{speed:,.0f} rows/s")


class CopyBar:
    def __init__(self, progress: Progress) -> None:
        self._progress = progress
        self._task = progress.add_task("", total=None)

    def phase(self, words: str, rows: int) -> None:
        """See CopyProgress."""
        self._progress.remove_task(self._task)
        self._task = self._progress.add_task(words, total=rows)

    def rows(self, table: str, count: int) -> None:
        """See CopyProgress."""
        self._progress.advance(self._task, count)


@contextmanager
def shown_progress() -> Generator[CopyProgress]:
    """Show the passes of one run."""
    if not sys.stderr.isatty():
        yield CopyLines()
        return
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        _Rate(),
        TimeRemainingColumn(),
    )
    console = Console(file=unguarded(sys.stderr), highlight=False)
    with Progress(*columns, console=console) as progress:
        yield CopyBar(progress)
