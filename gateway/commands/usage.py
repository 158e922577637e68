"""`strowger usage`: what was used, by day, key, model and backend."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

import click
import msgspec
from rich.markup import escape

from gateway.commands.configuration import config_option, faults_shown, load
from gateway.commands.screen import show, table_of
from gateway.store.errors import StoreAway
from gateway.store.opening import open_store
from gateway.store.usage import Used
from schemas.errors import InvalidConfig


@click.command()
@config_option
@click.option(
    "--days", type=click.IntRange(min=1), default=30, show_default=True, help="Up to today, in UTC."
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON instead of a table.")
def usage(path: Path, days: int, as_json: bool) -> None:
    """Show the requests, tokens and cost of each day, key, model and backend."""
    config = load(path)
    today = datetime.now(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
    with faults_shown():
        store = open_store(config.store.url)
        try:
            used = store.used(since=(today - timedelta(days=days - 1)).timestamp())
        except StoreAway as exc:
            raise InvalidConfig((f"store.url: {exc}",)) from exc
        finally:
            store.close()
    if as_json:
        click.echo(msgspec.json.encode(used))
    else:
        _table(used, priced=bool(config.prices))


def _table(used: list[Used], *, priced: bool) -> None:
    table = table_of("DAY", "KEY", "MODEL", "BACKEND", "REQUESTS", "ATTEMPTS", "IN", "OUT", "USD")
    for row in used:
        cost = f"{row.cost_usd:.4f}" + (" + ?" if row.unpriced else "") if priced else ""
        table.add_row(
            row.day,
            escape(row.key),
            escape(row.model),
            escape(row.backend),
            *(f"{count:,}" for count in (row.requests, row.attempts)),
            *(f"{count:,}" for count in (row.prompt_tokens, row.completion_tokens)),
            cost,
        )
    show(table)
