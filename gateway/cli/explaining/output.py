"""Print an explanation to the terminal."""

import click
from rich.markup import escape
from rich.table import Table

from strowger_gateway.gateway.cli.tables import show, table_of
from strowger_gateway.gateway.console.explain.explanation import Explanation
from strowger_gateway.gateway.console.explain.tables import (
    ExplainedTable,
    explained_tables,
    rejection,
)


def print_explanation(found: Explanation) -> None:
    """Print to standard output."""
    for one in explained_tables(found):
        if one.title:
            click.echo(f"\n{one.title}")
        show(_table(one))
    if refused := rejection(found):
        click.echo(f"\n{refused}")


def _table(one: ExplainedTable) -> Table:
    if one.columns:
        table = table_of(*one.columns)
    else:
        table = Table(box=None, pad_edge=False, padding=(0, 3, 0, 0), show_header=False)
    for row in one.rows:
        table.add_row(*map(escape, row))
    return table
