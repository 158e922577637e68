"""`strowger cache`: what the response cache of a running gateway saves, and how it is cleared."""

from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlencode

import click
import msgspec
from rich.markup import escape
from rich.table import Table

from strowger_gateway.gateway.cli.address import Address, address_of, url_option
from strowger_gateway.gateway.cli.config_loading import config_option, load
from strowger_gateway.gateway.cli.http_client import admin_key_option, fetch
from strowger_gateway.gateway.cli.tables import show as show_table
from strowger_gateway.gateway.cli.tables import table_of
from strowger_gateway.gateway.config.schema.config import Tls
from strowger_gateway.gateway.content.cache.inspection.answer import (
    CacheView,
    ClearCache,
    Cleared,
    ModelCacheUse,
)

_WORDS = "Ask the gateway at this address; default: the one that the configuration starts."


@click.group()
def cache() -> None:
    """The response cache of a running gateway: show, clear."""


@cache.command()
@click.option("--since", default="24h", show_default=True, help="An age such as 7d, or a time.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON, as GET /admin/cache has it.")
@url_option(_WORDS)
@admin_key_option
@config_option
def show(
    address: Address | None, tls: Tls, path: Path, admin_key: str, since: str, as_json: bool
) -> None:
    """Show hits, misses and what was saved by model, and the answers that are kept."""
    found = fetch(
        address or address_of(load(path), tls),
        f"/admin/cache?{urlencode({'since': since})}",
        CacheView,
        key=admin_key,
    )
    if as_json:
        click.echo(msgspec.json.format(msgspec.json.encode(found)))
        return
    show_table(_table(found))
    kept = f"{found.entries:,} answers are kept ({found.where})"
    click.echo(f"\n{kept}; {found.shared:,} hits waited for an equal request")
    if not found.complete:
        click.echo("not all kept answers could be counted in time", err=True)


@cache.command()
@click.option("--model", default="", help="Only answers of this model.")
@click.option("--all", "every", is_flag=True, help="Answers of all models.")
@url_option(_WORDS)
@admin_key_option
@config_option
def clear(
    address: Address | None, tls: Tls, path: Path, admin_key: str, model: str, every: bool
) -> None:
    """Forget the answers of a model, or of all: equal requests go to the backends again."""
    if bool(model) == every:
        raise click.UsageError("give --model NAME, or --all")
    body = msgspec.json.encode(ClearCache(model=model))
    where = address or address_of(load(path), tls)
    found = fetch(where, "/admin/cache/clear", Cleared, key=admin_key, body=body)
    click.echo(f"{found.entries:,} answers are forgotten")
    if not found.complete:
        click.echo("some may be left; run it again", err=True)


def _table(found: CacheView) -> Table:
    table = table_of(
        *("MODEL", "HITS", "MISSES", "BYPASSED", "HIT RATE"),
        *("SAVED TOKENS", "SAVED $", "KEPT"),
    )
    for one in found.models:
        table.add_row(*map(escape, _cells(one)))
    return table


def _cells(one: ModelCacheUse) -> Iterator[str]:
    yield one.model
    yield f"{one.hits:,}"
    yield f"{one.misses:,}"
    yield f"{one.bypasses:,}"
    yield "" if one.hit_rate is None else f"{100 * one.hit_rate:.1f} %"
    yield f"{one.saved_prompt_tokens + one.saved_completion_tokens:,}"
    yield "?" if one.saved_usd is None else f"{one.saved_usd:.6f}".rstrip("0").rstrip(".")
    yield f"{one.entries:,}"
