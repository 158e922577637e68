"""`strowger guardrails`: what guardrails have found in recorded requests, without content."""

from datetime import UTC, datetime
from pathlib import Path
from urllib.parse import urlencode

import click
import msgspec
from rich.markup import escape
from rich.table import Table

from strowger_gateway.gateway.cli.address import Address, address_of, url_option
from strowger_gateway.gateway.cli.config_loading import config_option, load
from strowger_gateway.gateway.cli.http_client import admin_key_option, fetch
from strowger_gateway.gateway.cli.tables import show, table_of
from strowger_gateway.gateway.config.schema.config import Tls
from strowger_gateway.gateway.content.guardrails.findings.answer import GuardrailFindings


@click.command()
@click.option("--since", default="24h", show_default=True, help="An age such as 7d, or a time.")
@click.option("--guardrail", default="", help="Only this guardrail.")
@click.option("--rule", default="", help="Only this rule.")
@click.option("--action", default="", help="Only block, mask, monitor or failed.")
@click.option("--model", default="", help="Only requests of this model.")
@click.option("--key", default="", help="Only requests of this key.")
@click.option("--team", default="", help="Only requests of this team.")
@click.option("--limit", type=click.IntRange(1, 1_000), default=20, show_default=True)
@click.option("--json", "as_json", is_flag=True, help="Print JSON, as the API has it.")
@url_option("Ask the gateway at this address; default: the one that the configuration starts.")
@admin_key_option
@config_option
def guardrails(
    address: Address | None, tls: Tls, path: Path, admin_key: str, *, as_json: bool, **asked: object
) -> None:
    """Show how often each rule has found something, and in which requests; never their texts."""
    if address is None:
        address = address_of(load(path), tls)
    query = urlencode({name: value for name, value in asked.items() if value})
    found = fetch(address, f"/admin/guardrails?{query}", GuardrailFindings, key=admin_key)
    if as_json:
        click.echo(msgspec.json.format(msgspec.json.encode(found)))
        return
    if not found.recorded:
        click.echo("requests are not recorded, because there is no store", err=True)
    if not found.complete:
        click.echo("more than can be counted; the newest are shown", err=True)
    show(_rules(found))
    if found.requests:
        click.echo("\nrequests with findings, the newest first")
        show(_requests(found))


def _rules(found: GuardrailFindings) -> Table:
    table = table_of("GUARDRAIL", "RULE", "ACTION", "REQUESTS", "LAST")
    for one in found.rules:
        cells = (one.guardrail, one.rule, one.action, f"{one.requests:,}", _time(one.last))
        table.add_row(*map(escape, cells))
    return table


def _requests(found: GuardrailFindings) -> Table:
    table = table_of("TIME", "REQUEST", "STATUS", "MODEL", "KEY", "FINDINGS")
    for one in found.requests:
        findings = ", ".join(f"{each.guardrail}/{each.rule}:{each.action}" for each in one.findings)
        cells = (_time(one.time), one.id, str(one.status), one.model, one.key, findings)
        table.add_row(*map(escape, cells))
    return table


def _time(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%d %H:%M:%S")
