"""Tables for people: in columns that fit the terminal, and unwrapped if piped."""

import re
import shutil
import sys
from collections.abc import Sequence

from rich.console import Console
from rich.table import Column, Table

WIDE = 240
"""Columns if the output is not a terminal."""

GAP, NARROW_GAP = 3, 1
"""Blanks between two columns, and on a terminal that is too narrow for more."""

FOLDED = 24
"""Characters to which a column may be narrowed, whose longer texts then take several lines.

Dates, figures and most names are shorter, and are never broken."""

_BLANKS_AT_END = re.compile(r" +((?:\x1b\[[0-9;]*m)*)$", re.MULTILINE)


def show(table: Table) -> None:
    """Print a table. One that does not fit the terminal has long texts in several lines.

    If that is not enough, each row is one line, which the terminal breaks where it ends.
    """
    if not sys.stdout.isatty():
        Console(width=WIDE, highlight=False, soft_wrap=False).print(table)
        return
    columns, lines = shutil.get_terminal_size()
    # Where TERM is dumb, rich takes a width only together with a height.
    console = Console(width=_fit(table, columns), height=lines, highlight=False)
    with console.capture() as captured:
        console.print(table)
    console.file.write(_BLANKS_AT_END.sub(r"\1", captured.get()))


def table_of(*columns: str, title: str | None = None) -> Table:
    padding = (0, GAP, 0, 0)
    table = Table(title=title, title_justify="left", box=None, pad_edge=False, padding=padding)
    for column in columns:
        table.add_column(column, overflow="fold")
    return table


def _fit(table: Table, width: int) -> int:
    """Narrow the columns of a table, if it is wider than `width`; return how wide it is at most."""
    natural = [_width(column) for column in table.columns]
    if _sum(natural, GAP) <= width:
        return width
    table.padding = (0, NARROW_GAP, 0, 0)
    fits = _sum([min(one, FOLDED) for one in natural], NARROW_GAP) <= width
    for column, one in zip(table.columns, natural, strict=True):
        column.min_width = min(one, FOLDED) if fits else one
    return width if fits else _sum(natural, NARROW_GAP)


def _sum(widths: Sequence[int], gap: int) -> int:
    return sum(widths) + gap * max(0, len(widths) - 1)


def _width(column: Column) -> int:
    """Of the longest line in a column."""
    console = Console(width=10_000, height=1)
    cells = (column.header, *column.cells)
    return max([console.measure(one).maximum for one in cells], default=0)
