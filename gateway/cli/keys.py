"""`strowger keys`: issue, list, rotate and revoke API keys in the store."""

from collections.abc import Callable, Generator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final, TypeVar

import click
import msgspec
from msgspec import UNSET, UnsetType
from rich.markup import escape

from gateway.cli.config_loading import Faults, config_option, faults_shown, load
from gateway.cli.durations import DURATION, duration
from gateway.cli.os_user import os_user
from gateway.cli.tables import show as show_table
from gateway.cli.tables import table_of
from gateway.config.schema.config import Config
from gateway.issued_keys.authority import Issued, KeyAuthority, KeyEvent, KeyFields
from gateway.issued_keys.view import KeyDetails, KeyView, NewKeyView, details, listing, view_of
from gateway.store.errors import StoreUnavailable
from gateway.store.open import open_existing, open_store
from schemas.errors import CallerError

_EFFECT: Final = "running gateways follow within 2 s"
F = TypeVar("F", bound=Callable[..., object])
_T = TypeVar("_T")

json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON.")


def _instant(text: str) -> datetime:
    """Parse an RFC 3339 time, or a duration from now. Raises click.BadParameter."""
    if DURATION.fullmatch(text):
        return datetime.now(UTC) + timedelta(seconds=duration(text))
    try:
        instant = datetime.fromisoformat(text)
    except ValueError as exc:
        raise click.BadParameter(
            f"{text!r} is not a time; write 90d or 2027-01-31T00:00:00Z"
        ) from exc
    return instant if instant.tzinfo is not None else instant.replace(tzinfo=UTC)


@click.group()
def keys() -> None:
    """API keys that are issued into the store: create, list, rotate, revoke.

    Keys of the configuration file are listed, too, and can only be changed in the file.
    """


def _restrictions(command: F) -> F:
    """The options of `create` that set fields."""
    for option in (
        click.option("--network", "networks", multiple=True, help="Only from here; repeatable."),
        click.option("--tag", "tags", multiple=True, help="Free text for reports; repeatable."),
        click.option(
            "--not-before", type=_instant, metavar="TIME", help="Valid from this time, UTC."
        ),
        click.option(
            "--expires", type=_instant, metavar="TIME", help="Valid for so long, or until; UTC."
        ),
        click.option("--max-priority", type=click.IntRange(1, 5), help="Most urgent priority."),
        click.option("--model", "models", multiple=True, help="Model it may use; repeatable."),
        click.option("--user", help="Person or program that it is for."),
        click.option("--team", help="A team of the configuration."),
    ):
        command = option(command)
    return command


@keys.command()
@click.argument("name")
@_restrictions
@config_option
@json_option
def create(
    name: str,
    path: Path,
    as_json: bool,
    team: str | None,
    user: str | None,
    models: tuple[str, ...],
    max_priority: int | None,
    tags: tuple[str, ...],
    expires: datetime | None,
    not_before: datetime | None,
    networks: tuple[str, ...],
) -> None:
    """Issue the key NAME. Its secret goes to stdout, this once; the store has only its digest."""
    fields = KeyFields(
        team=_or_unset(team),
        user=_or_unset(user),
        models=models or UNSET,
        max_priority=_or_unset(max_priority),
        tags=tags or UNSET,
        expires=_or_unset(expires),
        not_before=_or_unset(not_before),
        allowed_networks=networks or UNSET,
    )
    config = load(path)
    with _authority(config) as authority:
        issued = authority.create(name, fields, os_user())
    _print_secret(issued, config, as_json)


@keys.command("list")
@click.option("--all", "everything", is_flag=True, help="Include revoked keys.")
@config_option
@json_option
def listed(path: Path, as_json: bool, everything: bool) -> None:
    """List all keys with their state."""
    config = load(path)
    with _authority(config, reads=True) as authority:
        found = listing(authority.rows.all(), config).keys
    rows = [one for one in found if everything or one.state != "revoked"]
    if as_json:
        _print_json(rows)
        return
    table = table_of("NAME", "SOURCE", "STATE", "ENDS IN", "TEAM", "MODELS", "EXPIRES", "LAST USED")
    for row in rows:
        ends = ", ".join(secret.last4 for secret in row.secrets)
        times = (_time(row.expires), _time(row.last_used))
        cells = (row.name, row.source, row.state, ends, row.team, ", ".join(row.models), *times)
        table.add_row(*map(escape, cells))
    show_table(table)


@keys.command()
@click.argument("name")
@config_option
@json_option
def show(name: str, path: Path, as_json: bool) -> None:
    """Show an issued key, and in which gateways its last change is in effect."""
    config = load(path)
    with _authority(config, reads=True) as authority:
        found = details(authority.find(name), authority.rows.readers(), config)
    if as_json:
        _print_json(found)
    else:
        _print_details(found)


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
    with _authority(config) as authority:
        issued = authority.rotate(name, overlap, os_user())
    _print_secret(issued, config, as_json)


@keys.command()
@click.argument("name")
@config_option
def revoke(name: str, path: Path) -> None:
    """Revoke the key NAME for ever."""
    with _authority(load(path)) as authority:
        authority.revoke(name, os_user())
    click.echo(f"{name} is revoked; {_EFFECT} (strowger keys show {name})")


def _set_disabled(name: str, path: Path, *, disabled: bool) -> None:
    with _authority(load(path)) as authority:
        authority.change(name, KeyFields(disabled=disabled), os_user())
    click.echo(f"{name} is {'disabled' if disabled else 'enabled'}; {_EFFECT}")


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


@contextmanager
def _authority(config: Config, *, reads: bool = False) -> Generator[KeyAuthority]:
    """Open the store and show errors as lines. reads: do not create a missing SQLite file."""
    with faults_shown():
        store = (open_existing if reads else open_store)(config.store.url)
    try:
        yield KeyAuthority(store.issued_keys, lambda: config, _ignore)
    except StoreUnavailable as exc:
        raise Faults((f"store.url: {exc.message}",)) from exc
    except CallerError as exc:
        raise Faults((exc.message,)) from exc
    finally:
        store.close()


def _print_secret(issued: Issued, config: Config, as_json: bool) -> None:
    view = view_of(issued.key, config)
    if as_json:
        _print_json(NewKeyView(key=view, secret=issued.secret))
        return
    if config.auth.mode != "keys":
        click.echo("warning: auth.mode is none, so no key is needed or checked", err=True)
    click.echo(f"{view.name}: the secret is shown this once; {_EFFECT}", err=True)
    click.echo(issued.secret)


def _print_details(found: KeyDetails) -> None:
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
        ("not before", _time(key.not_before)),
        ("expires", _time(key.expires)),
        ("created", f"{_time(key.created)} by {key.created_by}"),
        ("revoked", _time(key.revoked)),
        ("last used", _time(key.last_used) or "never"),
    ):
        if text:
            click.echo(f"{label:13} {text}")
    if not found.gateways:
        click.echo("in effect     no gateway has read this store within the last hour")
    for one in found.gateways:
        state = "yes" if one.in_effect else "NOT YET"
        silent = "" if one.responding else f", NOT RESPONDING since {_time(one.seen)}"
        processes = f"{one.processes} process{'' if one.processes == 1 else 'es'}"
        click.echo(f"in effect     {state}: {one.host}, leader {one.pid}, {processes}{silent}")


def _secret(key: KeyView, place: int) -> str:
    secret = key.secrets[place]
    until = "" if secret.valid_until is None else f", valid until {_time(secret.valid_until)}"
    return f"…{secret.last4}, made {_time(secret.created)}{until}"


def _time(at: datetime | None) -> str:
    return "" if at is None else at.astimezone(UTC).strftime("%Y-%m-%d %H:%M:%S UTC")


def _or_unset(value: _T | None) -> _T | UnsetType:
    return UNSET if value is None else value


def _ignore(event: KeyEvent) -> None:
    """The command prints what it did."""


def _print_json(value: object) -> None:
    click.echo(msgspec.json.format(msgspec.json.encode(value), indent=2))
