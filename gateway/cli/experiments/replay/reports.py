"""`strowger experiments replay-report`, `replay-export` and `replay-remove`."""

import time
from io import StringIO
from pathlib import Path

import click
import msgspec
from rich.markup import escape

from strowger_gateway.gateway.cli.config_loading import config_option, load
from strowger_gateway.gateway.cli.experiments.export import complete_file
from strowger_gateway.gateway.cli.experiments.replay.output import print_report
from strowger_gateway.gateway.cli.experiments.replay.stores import (
    find_run,
    into_option,
    replay_store,
)
from strowger_gateway.gateway.cli.tables import show, table_of
from strowger_gateway.gateway.experiments.replay.export import write_pairs
from strowger_gateway.gateway.experiments.replay.report import report_of
from strowger_gateway.gateway.experiments.replay.rows import ReplayRows
from strowger_gateway.gateway.experiments.replay.summary import ListedRun, listed_run
from strowger_gateway.gateway.experiments.replay.votes import VoteRows


@click.command("replay-report")
@click.argument("run", required=False)
@into_option
@config_option
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def replay_report(run: str | None, into: Path | None, path: Path, as_json: bool) -> None:
    """Show the results of the replay RUN so far; without RUN, list all runs."""
    with replay_store(load(path), into) as store:
        rows = ReplayRows(store.database)
        if run is None:
            found = [listed_run(one, time.time()) for one in rows.runs()]
            _list(found, as_json=as_json)
            return
        votes = VoteRows(store.database)
        report = report_of(rows, votes, find_run(rows, run), time.time())
    if as_json:
        click.echo(msgspec.json.format(msgspec.json.encode(report), indent=2))
    else:
        print_report(report)


@click.command("replay-export")
@click.argument("run")
@click.option(
    "--output",
    "-o",
    type=click.Path(path_type=Path, dir_okay=False),
    help="File to write. Default: standard output.",
)
@into_option
@config_option
def replay_export(run: str, output: Path | None, into: Path | None, path: Path) -> None:
    """Write the rows from which the report of the replay RUN is computed, as CSV.

    One row per pair, without texts.
    """
    with replay_store(load(path), into) as store:
        rows, votes = ReplayRows(store.database), VoteRows(store.database)
        name = find_run(rows, run).name
        if output is None:
            text = StringIO(newline="")
            write_pairs(rows, votes, name, text)
            click.echo(text.getvalue().encode(), nl=False)
            return
        with complete_file(output) as part, part.open("w", encoding="utf-8", newline="") as file:
            count = write_pairs(rows, votes, name, file)
    click.echo(f"{output}: {count:,} rows", err=True)


@click.command("replay-remove")
@click.argument("run")
@into_option
@config_option
def replay_remove(run: str, into: Path | None, path: Path) -> None:
    """Delete the replay RUN with its prompts, answers, judgements and votes."""
    with replay_store(load(path), into) as store:
        rows = ReplayRows(store.database)
        rows.remove(find_run(rows, run).name)
    click.echo(f"{run} is deleted")


def _list(found: list[ListedRun], *, as_json: bool) -> None:
    if as_json:
        click.echo(msgspec.json.format(msgspec.json.encode(found), indent=2))
        return
    table = table_of("RUN", "CONTROL", "TREATMENT", "PAIRS", "CREATED", "STATE")
    for one in found:
        cells = (one.run, one.control, one.treatment, f"{one.pairs:,}", one.created, one.state)
        table.add_row(*map(escape, cells))
    show(table)
