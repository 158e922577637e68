"""`strowger spend-caps`: how far the spend caps of providers are used up."""

import time
from datetime import UTC, datetime
from pathlib import Path

import click
import msgspec
from rich.markup import escape

from strowger_gateway.gateway.cli.config_loading import config_option, faults_shown, load
from strowger_gateway.gateway.cli.tables import show, table_of
from strowger_gateway.gateway.config.schema.config import Config
from strowger_gateway.gateway.governance.spend_caps.standing import CapStanding, standings
from strowger_gateway.gateway.storage.sql.errors import StoreUnavailable
from strowger_gateway.gateway.storage.sql.open import open_existing
from strowger_gateway.gateway.storage.sql.spend_caps.backend_spend import backend_spend
from strowger_gateway.schemas.errors import InvalidConfig


@click.command()
@config_option
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def spend_caps(path: Path, as_json: bool) -> None:
    """Show how far the spend caps of providers are used up, from the store."""
    found = _read(load(path))
    if as_json:
        click.echo(msgspec.json.format(msgspec.json.encode(found)))
    elif not found:
        click.echo(f"{path}: no provider has spend_caps")
    else:
        _table(found)


def _read(config: Config) -> tuple[CapStanding, ...]:
    with faults_shown():
        store = open_existing(config.store.url)
        try:
            return standings(
                config,
                lambda period: backend_spend(store.database, period.begin, period.end),
                time.time(),
            )
        except StoreUnavailable as exc:
            raise InvalidConfig((f"store.url: {exc}",)) from exc
        finally:
            store.close()


def _table(found: tuple[CapStanding, ...]) -> None:
    table = table_of("PROVIDER", "MODELS", "SPENT", "CAP", "PER", "STATE", "BEGINS AGAIN")
    for one in found:
        table.add_row(
            escape(one.provider),
            escape(", ".join(one.models)),
            f"{one.spent:,.4f}",
            f"{one.usd:,.2f}",
            one.per,
            "used up" if one.used_up else "in use",
            "never"
            if one.resets is None
            else f"{datetime.fromtimestamp(one.resets, UTC):%Y-%m-%d %H:%M} UTC",
        )
    show(table)
