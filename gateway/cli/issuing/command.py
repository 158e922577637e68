"""`strowger keys`: issue, list, change, rotate and revoke API keys in the store."""

from pathlib import Path
from typing import Unpack

import click
from msgspec.structs import replace
from rich.markup import escape

from strowger_gateway.gateway.audit.event import Action
from strowger_gateway.gateway.cli.config_loading import config_option, load
from strowger_gateway.gateway.cli.durations import duration
from strowger_gateway.gateway.cli.issuing.display import (
    EFFECT,
    print_details,
    print_json,
    print_secret,
    print_secrets,
    time_text,
)
from strowger_gateway.gateway.cli.issuing.options import FieldOptions, field_options, fields_of
from strowger_gateway.gateway.cli.issuing.store_access import changing, reading
from strowger_gateway.gateway.cli.os_user import os_user
from strowger_gateway.gateway.cli.tables import show as show_table
from strowger_gateway.gateway.cli.tables import table_of
from strowger_gateway.gateway.governance.issued_keys.authority import KeyFields
from strowger_gateway.gateway.governance.issued_keys.rule_text import rule_text
from strowger_gateway.gateway.governance.issued_keys.view import details, list_keys

json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON.")


@click.group()
def keys() -> None:
    """API keys that are issued into the store: create, list, change, rotate, revoke.

    Keys of the configuration file are listed, too, and can only be changed in the file.
    """


@keys.command()
@click.argument("names", metavar="NAME...", nargs=-1, required=True)
@field_options
@config_option
@json_option
def create(
    names: tuple[str, ...], path: Path, as_json: bool, **options: Unpack[FieldOptions]
) -> None:
    """Issue the key NAME. Its secret goes to stdout, this once; the store has only its digest.

    Several names get keys with the same fields: each is a line with the name and the secret.
    """
    config = load(path)
    with changing(config, "key.create", names[0]) as authority:
        made = authority.create_all(names, fields_of(options), os_user())
    if len(names) > 1:
        print_secrets(made, config, as_json)
    else:
        print_secret(made.issued[0], config, as_json)


@keys.command()
@click.argument("name")
@field_options
@click.option("--no-limits", is_flag=True, help="Remove its own limits.")
@click.option("--no-budgets", is_flag=True, help="Remove its own budgets.")
@config_option
def change(
    name: str, path: Path, no_limits: bool, no_budgets: bool, **options: Unpack[FieldOptions]
) -> None:
    """Change fields of the key NAME; those that are not given stay.

    What can be given several times is replaced as a whole: all limits, all models.
    """
    if (no_limits and options["limits"]) or (no_budgets and options["budgets"]):
        raise click.UsageError(
            "--no-limits and --limit, or --no-budgets and --budget, exclude each other"
        )
    with changing(load(path), "key.change", name) as authority:
        fields = fields_of(options)
        if no_limits:
            fields = replace(fields, limits=())
        if no_budgets:
            fields = replace(fields, budgets=())
        if fields == KeyFields():
            raise click.UsageError("nothing to change; give an option such as --limit")
        authority.change(name, fields, os_user())
    click.echo(f"{name} is changed; {EFFECT} (strowger keys show {name})")


@keys.command("list")
@click.option("--all", "everything", is_flag=True, help="Include revoked keys.")
@config_option
@json_option
def listed(path: Path, as_json: bool, everything: bool) -> None:
    """List all keys with their state, and their own limits and budgets."""
    config = load(path)
    with reading(config) as authority:
        found = list_keys(authority, config).keys
    rows = [one for one in found if everything or one.state != "revoked"]
    if as_json:
        print_json(rows)
        return
    limited = ("LIMITS",) if any(one.limits or one.budgets for one in rows) else ()
    columns = ("ENDS IN", "TEAM", "MODELS", *limited, "EXPIRES", "LAST USED")
    table = table_of("NAME", "SOURCE", "STATE", *columns)
    for row in rows:
        ends = ", ".join(secret.last4 for secret in row.secrets)
        own = ("; ".join(rule_text(one) for one in (*row.limits, *row.budgets)),) if limited else ()
        times = (time_text(row.expires), time_text(row.last_used))
        cells = (row.name, row.source, row.state, ends, row.team, ", ".join(row.models), *own)
        table.add_row(*map(escape, (*cells, *times)))
    show_table(table)


@keys.command()
@click.argument("name")
@config_option
@json_option
def show(name: str, path: Path, as_json: bool) -> None:
    """Show an issued key, and in which gateways its last change is in effect."""
    config = load(path)
    with reading(config) as authority:
        found = details(authority.find(name), authority.rows.readers(), config)
    if as_json:
        print_json(found)
    else:
        print_details(found)


@keys.command()
@click.argument("name")
@click.option(
    "--overlap",
    type=duration,
    metavar="DURATION",
    default="0s",
    show_default=True,
    help="How long the old secret stays valid, such as 24h.",
)
@config_option
@json_option
def rotate(name: str, overlap: float, path: Path, as_json: bool) -> None:
    """Give the key NAME a new secret, which goes to stdout, this once."""
    config = load(path)
    with changing(config, "key.rotate", name) as authority:
        issued = authority.rotate(name, overlap, os_user())
    print_secret(issued, config, as_json)


@keys.command()
@click.argument("name")
@config_option
def revoke(name: str, path: Path) -> None:
    """Revoke the key NAME for ever."""
    with changing(load(path), "key.revoke", name) as authority:
        authority.revoke(name, os_user())
    click.echo(f"{name} is revoked; {EFFECT} (strowger keys show {name})")


def _set_disabled(name: str, path: Path, *, disabled: bool) -> None:
    action: Action = "key.disable" if disabled else "key.enable"
    with changing(load(path), action, name) as authority:
        authority.change(name, KeyFields(disabled=disabled), os_user())
    click.echo(f"{name} is {'disabled' if disabled else 'enabled'}; {EFFECT}")


@keys.command()
@click.argument("name")
@config_option
def disable(name: str, path: Path) -> None:
    """Refuse the key NAME until `enable`."""
    _set_disabled(name, path, disabled=True)


@keys.command()
@click.argument("name")
@config_option
def enable(name: str, path: Path) -> None:
    """Accept the key NAME again."""
    _set_disabled(name, path, disabled=False)
