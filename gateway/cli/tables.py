"""Tables for people: as wide as the terminal, and unwrapped if piped."""

import sys

from rich.console import Console
from rich.table import Table

WIDE = 240
"""Columns if the output is not a terminal."""


def show(table: Table) -> None:
    width = None if sys.stdout.isatty() else WIDE
    Console(width=width, highlight=False, soft_wrap=False).print(table)


def table_of(*columns: str, title: str | None = None) -> Table:
    table = Table(title=title, title_justify="left", box=None, pad_edge=False, padding=(0, 3, 0, 0))
    for column in columns:
        table.add_column(column, overflow="fold")
    return table
