"""`strowger status`: what is wrong with a running gateway. `strowger events`: what has happened."""

import sys
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Final
from urllib.parse import urlencode

import click
import msgspec
from rich.markup import escape

from strowger_gateway.gateway.cli.address import Address, address_of, url_option
from strowger_gateway.gateway.cli.config_loading import config_option, load
from strowger_gateway.gateway.cli.durations import DURATION, duration
from strowger_gateway.gateway.cli.http_client import admin_key_option, fetch
from strowger_gateway.gateway.cli.tables import show, table_of
from strowger_gateway.gateway.config.schema.connection import Tls
from strowger_gateway.gateway.console.problems.admin import MOST, EventList, ProblemList
from strowger_gateway.gateway.platform.formatting import span

_DEFAULT: Final = "Address of the gateway; default: where one with this configuration listens."
_STATUS: Final = {"none": 0, "notice": 0, "warning": 3, "critical": 4}
"""Exit statuses; 1 and 2 are those of commands that fail."""


def _since(text: str) -> float:
    """Parse a time, or a duration back from now. Raises click.BadParameter."""
    if DURATION.fullmatch(text):
        return time.time() - duration(text)
    try:
        instant = datetime.fromisoformat(text)
    except ValueError as exc:
        raise click.BadParameter(
            f"{text!r} is not a time; write 15m, 7d or 2027-01-31T00:00:00Z"
        ) from exc
    return (instant if instant.tzinfo else instant.replace(tzinfo=UTC)).timestamp()


@click.command()
@url_option(_DEFAULT)
@admin_key_option
@config_option
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def status(address: Address | None, tls: Tls, path: Path, admin_key: str, as_json: bool) -> None:
    """Show what is wrong with a running gateway now, and since when.

    Exit status 0: nothing, or only what an operator has done; 3: warnings; 4: requests fail or
    records are lost; 1: the gateway does not answer.
    """
    if address is None:
        address = address_of(load(path), tls)
    found = fetch(address, "/admin/problems", ProblemList, key=admin_key)
    if as_json:
        click.echo(msgspec.json.format(msgspec.json.encode(found), indent=2).decode())
    elif not found.problems:
        click.echo("nothing is wrong")
    else:
        table = table_of("SEVERITY", "PROBLEM", "FOR", "CAUSE", "GATEWAY")
        now = time.time()
        for one in found.problems:
            lasts = "" if one.since is None else span(max(0.0, now - one.since))
            cells = (one.severity, one.message, lasts, one.cause, one.gateway)
            table.add_row(*map(escape, cells))
        show(table)
    sys.exit(_STATUS[found.worst])


@click.command()
@url_option(_DEFAULT)
@admin_key_option
@config_option
@click.option("--since", type=_since, metavar="TIME", help="Events from then on: 15m, 7d, UTC.")
@click.option("--kind", default="", help="Such as circuit_opened, reloaded or store_down.")
@click.option("--model", default="", help="As configured.")
@click.option("--backend", default="", help="PROVIDER, PROVIDER/MODEL, or a replica.")
@click.option("--limit", type=click.IntRange(1, MOST), default=50, show_default=True)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON line per event.")
def events(
    address: Address | None,
    tls: Tls,
    path: Path,
    admin_key: str,
    since: float | None,
    kind: str,
    model: str,
    backend: str,
    limit: int,
    as_json: bool,
) -> None:
    """Show what has happened to backends and gateways, the latest last, over restarts.

    It is that of all gateways that share the store of the one that answers.
    """
    if address is None:
        address = address_of(load(path), tls)
    asked = {"since": since, "kind": kind, "model": model, "backend": backend, "limit": limit}
    query = urlencode({name: value for name, value in asked.items() if value})
    found = fetch(address, f"/admin/events?{query}", EventList, key=admin_key)
    if not found.complete:
        click.echo("the store does not answer: these are events of one gateway only", err=True)
    if as_json:
        for one in reversed(found.events):
            click.echo(msgspec.json.encode(one).decode())
        return
    table = table_of("TIME", "KIND", "EVENT", "GATEWAY")
    for one in reversed(found.events):
        at = datetime.fromtimestamp(one.time, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        table.add_row(*map(escape, (at, one.kind, one.text, one.gateway)))
    show(table)
