"""`strowger usage`: requests, tokens and cost by day, key, model and backend."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

import click
import msgspec
from rich.markup import escape

from gateway.cli.config_loading import config_option, faults_shown, load
from gateway.cli.tables import show, table_of
from gateway.store.errors import StoreUnavailable
from gateway.store.open import open_existing
from gateway.store.usage_queries import UsageRow
from schemas.errors import InvalidConfig


@click.command()
@config_option
@click.option(
    "--days",
    type=click.IntRange(min=1),
    default=30,
    show_default=True,
    help="Number of days up to today, UTC.",
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def usage(path: Path, days: int, as_json: bool) -> None:
    """Show requests, tokens and cost per day, key, model and backend.

    The first columns count served responses; the columns from ATTEMPTS on count everything,
    including failed attempts, hedges and mirrored copies.
    """
    config = load(path)
    today = datetime.now(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
    with faults_shown():
        store = open_existing(config.store.url)
        try:
            used = store.usage(since=(today - timedelta(days=days - 1)).timestamp())
        except StoreUnavailable as exc:
            raise InvalidConfig((f"store.url: {exc}",)) from exc
        finally:
            store.close()
    if as_json:
        click.echo(msgspec.json.encode(used))
    else:
        _table(used, priced=bool(config.prices) or config.prices_from == "catalogue")


def _table(used: list[UsageRow], *, priced: bool) -> None:
    """Print usage and cost of served responses, then of all attempts."""
    table = table_of(
        *("DAY", "KEY", "MODEL", "BACKEND", "REQUESTS", "IN", "OUT", "USD"),
        *("ATTEMPTS", "IN", "OUT", "SPENT"),
    )
    for row in used:
        counts = (row.requests, row.served_prompt_tokens, row.served_completion_tokens)
        in_all = (row.attempts, row.prompt_tokens, row.completion_tokens)
        table.add_row(
            *(escape(name) for name in (row.day, row.key, row.model, row.backend)),
            *(f"{count:,}" for count in counts),
            _usd(row.served_usd, row.served_unpriced) if priced else "",
            *(f"{count:,}" for count in in_all),
            _usd(row.cost_usd, row.unpriced) if priced else "",
        )
    show(table)


def _usd(known: float, unpriced: int) -> str:
    """Format with enough digits for one small request; "?" marks an unknown cost."""
    if unpriced and not known:
        return "?"
    return f"{known:,.{4 if known >= 0.01 or not known else 6}f}" + (" + ?" if unpriced else "")
