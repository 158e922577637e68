"""How the commands print keys."""

from datetime import UTC, datetime
from typing import Final

import click
import msgspec

from strowger_gateway.gateway.cli.config_loading import Faults
from strowger_gateway.gateway.config.schema.config import Config
from strowger_gateway.gateway.governance.issued_keys.authority import Issued, KeyBatch
from strowger_gateway.gateway.governance.issued_keys.rule_text import rule_text
from strowger_gateway.gateway.governance.issued_keys.view import (
    KeyDetails,
    KeyView,
    NewKeysView,
    NewKeyView,
    view_of,
)

EFFECT: Final = "running gateways follow within 2 s"


def print_secret(issued: Issued, config: Config, as_json: bool) -> None:
    view = view_of(issued.key, config)
    if as_json:
        print_json(NewKeyView(key=view, secret=issued.secret))
        return
    if config.auth.mode != "keys":
        click.echo("warning: auth.mode is none, so no key is needed or checked", err=True)
    click.echo(f"{view.name}: the secret is shown this once; {EFFECT}", err=True)
    click.echo(issued.secret)


def print_secrets(made: KeyBatch, config: Config, as_json: bool) -> None:
    """Raises Faults if some keys could not be issued, after those that were."""
    if as_json:
        keys = (NewKeyView(key=view_of(one.key, config), secret=one.secret) for one in made.issued)
        print_json(NewKeysView(keys=tuple(keys), failed=made.failed))
    else:
        if config.auth.mode != "keys":
            click.echo("warning: auth.mode is none, so no key is needed or checked", err=True)
        click.echo(f"the secrets are shown this once; {EFFECT}", err=True)
        for one in made.issued:
            click.echo(f"{one.key.name} {one.secret}")
    if made.failed:
        raise Faults(tuple(f"{one.name}: {one.message}" for one in made.failed))


def print_details(found: KeyDetails) -> None:
    key = found.key
    for label, text in (
        ("name", key.name),
        ("state", key.state),
        *(("secret", _secret(key, place)) for place in range(len(key.secrets))),
        ("team", key.team),
        ("user", key.user),
        ("models", ", ".join(key.models)),
        ("max_priority", str(key.max_priority)),
        ("tags", ", ".join(key.tags)),
        ("networks", ", ".join(key.allowed_networks)),
        *(("limit", rule_text(limit)) for limit in key.limits),
        *(("budget", rule_text(budget)) for budget in key.budgets),
        ("not before", time_text(key.not_before)),
        ("expires", time_text(key.expires)),
        ("created", f"{time_text(key.created)} by {key.created_by}"),
        ("revoked", time_text(key.revoked)),
        ("last used", time_text(key.last_used) or "never"),
    ):
        if text:
            click.echo(f"{label:13} {text}")
    if not found.gateways:
        click.echo("in effect     no gateway has read this store within the last hour")
    for one in found.gateways:
        state = "yes" if one.in_effect else "NOT YET"
        silent = "" if one.responding else f", NOT RESPONDING since {time_text(one.seen)}"
        processes = f"{one.processes} process{'' if one.processes == 1 else 'es'}"
        click.echo(f"in effect     {state}: {one.host}, leader {one.pid}, {processes}{silent}")


def _secret(key: KeyView, place: int) -> str:
    secret = key.secrets[place]
    until = "" if secret.valid_until is None else f", valid until {time_text(secret.valid_until)}"
    return f"…{secret.last4}, made {time_text(secret.created)}{until}"


def time_text(at: datetime | None) -> str:
    return "" if at is None else at.astimezone(UTC).strftime("%Y-%m-%d %H:%M:%S UTC")


def print_json(value: object) -> None:
    click.echo(msgspec.json.format(msgspec.json.encode(value), indent=2))
