"""`strowger gateways`: the gateways that share a store, and what differs among them."""

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import click
import msgspec
from rich.markup import escape
from rich.table import Table

from strowger_gateway.gateway.cli.address import Address, address_of, url_option
from strowger_gateway.gateway.cli.config_loading import config_option, load
from strowger_gateway.gateway.cli.http_client import admin_key_option, fetch
from strowger_gateway.gateway.cli.tables import show, table_of
from strowger_gateway.gateway.config.schema.config import Tls
from strowger_gateway.gateway.console.gateways.answer import GatewayList
from strowger_gateway.gateway.console.gateways.report import SeenGateway

_MIB = 1024 * 1024


@click.command()
@click.option("--json", "as_json", is_flag=True, help="Print JSON, as GET /admin/gateways has it.")
@url_option("Ask the gateway at this address; default: the one that the configuration starts.")
@admin_key_option
@config_option
def gateways(address: Address | None, tls: Tls, path: Path, admin_key: str, as_json: bool) -> None:
    """List a running gateway and those with the same store: versions, configurations, load."""
    where = address or address_of(load(path), tls)
    found = fetch(where, "/admin/gateways", GatewayList, key=admin_key)
    if as_json:
        click.echo(msgspec.json.format(msgspec.json.encode(found)))
        return
    show(_table(found))
    if found.trouble:
        click.echo(found.trouble, err=True)
    if any(one.down for one in found.gateways if one.responding):
        click.echo("\nbackends that are down")
        show(_down(found))
    if found.differences:
        click.echo("\nsettings that differ")
        show(_differences(found))


def _table(found: GatewayList) -> Table:
    table = table_of(
        *("GATEWAY", "STATE", "VERSION", "CONFIGURATION", "STARTED"),
        *("WORKERS", "MEMORY", "IN FLIGHT", "IMPORT LAG"),
    )
    for one in found.gateways:
        table.add_row(*map(escape, _cells(one)))
    return table


def _cells(one: SeenGateway) -> Iterator[str]:
    yield f"{one.name} (this one)" if one.itself else one.name
    yield "responding" if one.responding else f"no report since {_time(one.seen)}"
    yield one.version or "?"
    yield f"{one.digest}, file rejected" if one.rejected else one.digest
    yield _time(one.started)
    yield str(one.workers) if one.workers >= one.wanted else f"{one.workers} of {one.wanted}"
    yield f"{one.memory_bytes / _MIB:,.0f} MiB" if one.memory_bytes else "?"
    yield f"{one.in_flight:,}"
    yield f"{one.import_lag_s:.0f} s"


def _down(found: GatewayList) -> Table:
    table = table_of("BACKEND", "MODEL", "GATEWAY", "STATE", "SINCE")
    for gateway in found.gateways:
        for one in gateway.down if gateway.responding else ():
            since = "" if one.since is None else _time(one.since)
            cells = (one.backend, one.model, gateway.name, one.state, since)
            table.add_row(*map(escape, cells))
    return table


def _differences(found: GatewayList) -> Table:
    table = table_of("KEY", "GATEWAY", "VALUE")
    for one in found.differences:
        for name, value in one.values.items():
            table.add_row(*map(escape, (one.path, name, "(not set)" if value is None else value)))
    return table


def _time(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%d %H:%M:%S")
