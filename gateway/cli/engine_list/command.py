"""`strowger engines`: the engines that a running gateway uses, with their load."""

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
from strowger_gateway.gateway.console.admin.engines import EngineList, EngineProcessView


@click.command()
@url_option("Ask the gateway at this address; default: the one that the configuration starts.")
@admin_key_option
@config_option
@click.option("--json", "as_json", is_flag=True, help="Print JSON, as GET /admin/engines has it.")
def engines(address: Address | None, tls: Tls, path: Path, admin_key: str, as_json: bool) -> None:
    """List a running gateway's engines: their hosts, devices, models and load."""
    if address is None:
        address = address_of(load(path), tls)
    found = fetch(address, "/admin/engines", EngineList, key=admin_key)
    if as_json:
        click.echo(msgspec.json.format(msgspec.json.encode(found)))
        return
    show(_table(found))
    for one in found.engines:
        if not one.up and one.status:
            click.echo(f"{one.name}: {one.status}")


def _table(found: EngineList) -> Table:
    table = table_of(
        "ENGINE", "HOST", "DEVICE", "STATE", "UP", "MODELS", "RUNNING", "WAITING", "CACHE"
    )
    for one in found.engines:
        models = one.models.values()
        blocks = sum(model.blocks_total for model in models)
        used = blocks - sum(model.blocks_free for model in models)
        table.add_row(
            escape(one.name),
            escape(one.host or "unknown"),
            " ".join(filter(None, (one.device, one.dtype))) or "unknown",
            one.state,
            _span(one),
            escape(", ".join(one.models)),
            str(sum(model.running for model in models)),
            str(sum(model.waiting for model in models)),
            f"{100 * used / blocks:.0f} %" if blocks else "",
        )
    return table


def _span(one: EngineProcessView) -> str:
    minutes, seconds = divmod(int(one.uptime_s), 60)
    hours, minutes = divmod(minutes, 60)
    if not one.up:
        return ""
    return f"{hours} h {minutes} min" if hours else f"{minutes} min {seconds} s"
