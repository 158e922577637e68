"""`strowger usage`: requests, tokens and cost by time, key, team, user, tag, model and backend."""

import time
from pathlib import Path

import click
import msgspec
from rich.markup import escape

from strowger_gateway.gateway.cli.config_loading import Faults, config_option, faults_shown, load
from strowger_gateway.gateway.cli.tables import show, table_of
from strowger_gateway.gateway.config.checks.known_prices import has_prices
from strowger_gateway.gateway.governance.usage.csv_output import as_csv
from strowger_gateway.gateway.governance.usage.periods import usage_range
from strowger_gateway.gateway.governance.usage.report import (
    DEFAULT,
    DIMENSIONS,
    FILTERS,
    Dimension,
    UsageQuery,
    UsageReport,
    Used,
    dimensions,
    usage_report,
)
from strowger_gateway.gateway.storage.sql.errors import StoreUnavailable
from strowger_gateway.gateway.storage.sql.open import open_existing
from strowger_gateway.schemas.errors import InvalidConfig, InvalidRequest


def _filters(command: click.Command) -> click.Command:
    """`--key NAME` and the like."""
    for name in FILTERS:
        words = name.replace("_", "-")
        option = click.Option(
            [f"--{words}"], metavar="NAME", help=f"Only this {words.replace('-', ' ')}."
        )
        command.params.append(option)
    return command


@_filters
@click.command()
@config_option
@click.option("--by", default=",".join(DEFAULT), show_default=True, help=", ".join(DIMENSIONS))
@click.option("--days", type=click.IntRange(1, 10_000), help="Days up to today; default 30.")
@click.option("--month", default="", help="A month such as 2026-11, or `this` or `last`.")
@click.option("--from", "begin", default="", help="A date, or a time with a time zone.")
@click.option("--to", "end", default="", help="The first date or time not included; default now.")
@click.option(
    "--time-zone", default="UTC", show_default=True, help="Of days and months: Europe/Berlin."
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.option("--csv", "csv", is_flag=True, help="Print CSV.")
def usage(
    path: Path,
    by: str,
    days: int | None,
    month: str,
    begin: str,
    end: str,
    time_zone: str,
    as_json: bool,
    csv: bool,
    **only: str | None,
) -> None:
    """Show requests, tokens and cost, for example for chargeback.

    The columns up to USD count served responses; the columns from ATTEMPTS on count everything,
    including failed attempts, hedges and mirrored copies.

    \b
    strowger usage --month last --by team --csv
    strowger usage --days 7 --by day,model --team search
    """
    if as_json and csv:
        raise click.UsageError("give either --json or --csv")
    try:
        query = UsageQuery(
            range=usage_range(
                time.time(), days=days, month=month, begin=begin, end=end, time_zone=time_zone
            ),
            by=dimensions(by),
            only=msgspec.convert(
                {name: value for name, value in only.items() if value is not None},
                dict[Dimension, str],
            ),
        )
        report, priced = _read(path, query)
    except InvalidRequest as exc:
        raise Faults((exc.message,)) from exc
    if as_json:
        click.echo(msgspec.json.encode(report))
    elif csv:
        click.echo(as_csv(report), nl=False)
    else:
        _table(report, priced=priced)
    if not report.rows and not as_json:
        begin, end = f"{report.begin:%Y-%m-%d %H:%M}", f"{report.end:%Y-%m-%d %H:%M}"
        click.echo(f"No requests from {begin} to {end} ({report.time_zone}).", err=True)
    if report.rows_overlap and not as_json:
        click.echo(
            "A request with several tags is in the row of each; the total counts it once: "
            f"{report.total.requests:,} requests, {report.total.cost_usd} USD spent. "
            "`tags` instead of `tag` gives rows that add up.",
            err=True,
        )


def _read(path: Path, query: UsageQuery) -> tuple[UsageReport, bool]:
    """Return the report, and whether the configuration has prices. Raises InvalidRequest."""
    config = load(path)
    with faults_shown():
        store = open_existing(config.store.url)
        try:
            report = usage_report(query, store.usage)
        except StoreUnavailable as exc:
            raise InvalidConfig((f"store.url: {exc}",)) from exc
        finally:
            store.close()
    return report, has_prices(config)


def _table(report: UsageReport, *, priced: bool) -> None:
    """Print usage and cost of served responses, then of all attempts; the total last."""
    table = table_of(
        *(name.upper() for name in report.by),
        *("REQUESTS", "IN", "OUT", "USD", "ATTEMPTS", "IN", "OUT", "SPENT"),
    )
    for row in report.rows:
        names = (escape(row.text(one)) for one in report.by)
        table.add_row(*names, *_figures(row, priced=priced))
    if len(report.rows) > 1 and report.by:
        blanks = [""] * (len(report.by) - 1)
        table.add_row("TOTAL", *blanks, *_figures(report.total, priced=priced))
    show(table)


def _figures(row: Used, *, priced: bool) -> tuple[str, ...]:
    return (
        f"{row.requests:,}",
        f"{row.served_prompt_tokens:,}",
        f"{row.served_completion_tokens:,}",
        _usd(row.served_nano_usd, row.served_unpriced) if priced else "",
        f"{row.attempts:,}",
        f"{row.prompt_tokens:,}",
        f"{row.completion_tokens:,}",
        _usd(row.cost_nano_usd, row.unpriced) if priced else "",
    )


def _usd(nanos: int, unpriced: int) -> str:
    """Format with enough digits for one small request; "?" marks an unknown cost."""
    if unpriced and not nanos:
        return "?"
    digits = 4 if nanos >= 10_000_000 or not nanos else 6
    return f"{nanos / 1e9:,.{digits}f}" + (" + ?" if unpriced else "")
