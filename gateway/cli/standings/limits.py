"""`strowger limits`: what a running gateway has used, reserved and left of each limit."""

from pathlib import Path
from urllib.parse import urlencode

import click
import msgspec
from rich.markup import escape

from strowger_gateway.gateway.cli.address import Address, address_of, url_option
from strowger_gateway.gateway.cli.config_loading import config_option, load
from strowger_gateway.gateway.cli.http_client import admin_key_option, fetch
from strowger_gateway.gateway.cli.standings.whose_options import whose_options
from strowger_gateway.gateway.cli.tables import show, table_of
from strowger_gateway.gateway.config.schema.connection import Tls
from strowger_gateway.gateway.console.admin.limits import LimitOverview
from strowger_gateway.gateway.governance.limits.standing import MOST_STANDINGS, LimitStanding


@click.command()
@url_option("Address of the gateway; default: where one with this configuration listens.")
@admin_key_option
@config_option
@whose_options
@click.option("--plan", default="", metavar="NAME", help="The plan, if --key is of a token.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def limits(
    address: Address | None,
    tls: Tls,
    admin_key: str,
    path: Path,
    as_json: bool,
    **only: str,
) -> None:
    """Show what is used of each limit now in a running gateway.

    Without --url, the configuration has its address and its admin key.
    USED counts requests in flight with what they have reserved. RESERVED is leased to processes.
    RESETS IN is when everything is free again if nothing else is used.

    \b
    strowger limits --key web --end-user ann@example.org
    """
    if address is None:
        config = load(path)
        address = address_of(config, tls)
        admin_key = admin_key or config.auth.admin_key.reveal()
    query = urlencode([(name, value) for name, value in only.items() if value])
    target = f"/admin/limits?{query}" if query else "/admin/limits"
    found = fetch(address, target, LimitOverview, key=admin_key)
    if as_json:
        click.echo(msgspec.json.format(msgspec.json.encode(found)))
    elif not found.limits:
        whose = f" that applies to the key {found.key!r}" if found.key else ""
        click.echo(f"{address}: has no limit{whose}")
    else:
        _table(found)


def _table(found: LimitOverview) -> None:
    named = any(one.subject for one in found.limits)
    subject = ("SUBJECT",) if named else ()
    table = table_of("LIMIT", *subject, "OF", "USED", "RESERVED", "LEFT", "ALLOWED", "RESETS IN")
    for one in found.limits:
        table.add_row(
            escape(one.limit),
            *((escape(one.subject),) if named else ()),
            f"{one.quantity} per {one.per}" if one.per else "requests at once",
            f"{one.used:,}",
            f"{one.reserved:,}",
            f"{one.left:,}",
            f"{one.allowed:,}",
            _resets(one),
        )
    show(table)
    if len(found.limits) == MOST_STANDINGS:
        click.echo(f"only the first {MOST_STANDINGS:,} are shown; give --key", err=True)


def _resets(one: LimitStanding) -> str:
    if one.resets_s is None:
        return ""
    return f"{one.resets_s:.1f} s" if one.resets_s else "now"
