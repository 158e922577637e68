"""`strowger backends`: drain, disable and enable backends in all gateways of a store."""

import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

import click
import msgspec
from msgspec import Struct
from rich.markup import escape

from strowger_gateway.gateway.audit.event import LONGEST_REASON, Action, AuditEvent
from strowger_gateway.gateway.cli.config_loading import (
    Faults,
    config_option,
    faults_shown,
    load,
)
from strowger_gateway.gateway.cli.os_user import os_user
from strowger_gateway.gateway.cli.tables import show, table_of
from strowger_gateway.gateway.config.schema.config import Config
from strowger_gateway.gateway.routing.backend_holds.admin import not_held
from strowger_gateway.gateway.routing.backend_holds.hold_rows import (
    end_hold,
    put_hold,
    read_holds,
)
from strowger_gateway.gateway.routing.backend_holds.names import (
    backends_in,
    checked_name,
    hold_of,
    without_backend,
)
from strowger_gateway.gateway.routing.backend_holds.until import ends_at
from strowger_gateway.gateway.routing.resilience.backend_hold import (
    BackendHold,
    OperatorState,
    instant,
)
from strowger_gateway.gateway.storage.sql.errors import StoreUnavailable
from strowger_gateway.gateway.storage.sql.open import open_existing, open_store
from strowger_gateway.gateway.storage.sql.sql import SqlStore
from strowger_gateway.schemas.errors import CallerError

_Command = TypeVar("_Command", bound=Callable[..., None])

reason_option = click.option("--reason", default="", help="Shown wherever the state is.")
until_option = click.option(
    "--until",
    default="",
    metavar="WHEN",
    help="When it ends by itself: 30m, 2h or 3d from now, ISO 8601, or Unix seconds.",
)


class ListedBackend(Struct, frozen=True, kw_only=True):
    """A backend and its hold. state: in service, draining or disabled. Times: Unix seconds.

    held: what the hold is of: the backend, one replica of it, or its provider; "" without one.
    """

    name: str
    state: str
    held: str = ""
    reason: str = ""
    by: str = ""
    since: float | None = None
    until: float | None = None


@click.group()
def backends() -> None:
    """Take backends out of service, and put them back, in all gateways of the store."""


@backends.command("list")
@config_option
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def listed(path: Path, as_json: bool) -> None:
    """List all backends: which are drained or disabled, by whom, why and until when."""
    config = load(path)
    with _opened(config, change=False) as store:
        at = time.time()
        holds = tuple(one for one in read_holds(store.database) if not one.is_over(at))
    rows = [_row(name, hold_of(holds, name)) for name in backends_in(config)]
    known = {one.name for one in rows} | {one.held for one in rows}
    rows += [_row(one.name, one) for one in holds if one.name not in known]
    if as_json:
        click.echo(msgspec.json.format(msgspec.json.encode(rows), indent=2).decode())
        return
    table = table_of("BACKEND", "STATE", "REASON", "BY", "SINCE", "UNTIL")
    for one in rows:
        of = f" (all of {one.held})" if one.held not in ("", one.name) else ""
        times = ("" if at is None else instant(at) for at in (one.since, one.until))
        table.add_row(*map(escape, (one.name, one.state + of, one.reason, one.by, *times)))
    show(table)
    _show_effects(config, holds)


def _hold_options(command: _Command) -> _Command:
    return click.argument("name")(config_option(reason_option(until_option(command))))


@backends.command("drain")
@_hold_options
def drain(name: str, path: Path, reason: str, until: str) -> None:
    """Send NAME no new requests: PROVIDER, PROVIDER/MODEL, or a replica.

    Requests in flight end. Running gateways follow within 2 s, and remember it over restarts.
    """
    _put(load(path), name, "draining", reason, until)


@backends.command("disable")
@_hold_options
def disable(name: str, path: Path, reason: str, until: str) -> None:
    """Send NAME no requests and no health checks: PROVIDER, PROVIDER/MODEL, or a replica.

    Requests in flight end. Running gateways follow within 2 s, and remember it over restarts.
    """
    _put(load(path), name, "disabled", reason, until)


@backends.command("enable")
@click.argument("name")
@config_option
@reason_option
def enable(name: str, path: Path, reason: str) -> None:
    """Put NAME back into service. Running gateways follow within 2 s."""
    config = load(path)
    with _opened(config) as store:
        ended = end_hold(store.database, name.strip())
        left = read_holds(store.database)
        if ended is None:
            raise Faults((not_held(name.strip(), left),))
        _record(store, config, "backend.enable", name.strip(), reason)
    click.echo(f"{ended.name} is in service again; it was {ended.words}")
    _show_effects(config, left)


def _put(config: Config, name: str, state: OperatorState, reason: str, until: str) -> None:
    at, by = time.time(), os_user()
    if len(reason) > LONGEST_REASON:
        raise click.BadParameter(f"at most {LONGEST_REASON} characters", param_hint="--reason")
    with _opened(config) as store:
        hold = BackendHold(
            name=checked_name(name, config),
            state=state,
            reason=" ".join(reason.split()),
            by=by.label,
            since=at,
            until=ends_at(until, at),
        )
        put_hold(store.database, hold)
        action: Action = "backend.drain" if state == "draining" else "backend.disable"
        _record(store, config, action, hold.name, hold.reason, hold.until)
        holds = read_holds(store.database)
    click.echo(f"{hold.name} is {hold.words}")
    _show_effects(config, holds)


def _record(
    store: SqlStore,
    config: Config,
    action: Action,
    name: str,
    reason: str,
    until: float | None = None,
) -> None:
    if config.audit.log != "off":
        facts = {} if until is None else {"until": instant(until)}
        event = AuditEvent.by(os_user(), action, target=name, reason=reason, facts=facts)
        store.audit.append((event,))


def _row(name: str, hold: BackendHold | None) -> ListedBackend:
    if hold is None:
        return ListedBackend(name=name, state="in service")
    return ListedBackend(
        name=name,
        state=hold.state,
        held=hold.name,
        reason=hold.reason,
        by=hold.by,
        since=hold.since,
        until=hold.until,
    )


def _show_effects(config: Config, holds: tuple[BackendHold, ...]) -> None:
    for one in without_backend(config, holds):
        click.echo(f"warning: {one}", err=True)


@contextmanager
def _opened(config: Config, *, change: bool = True) -> Generator[SqlStore]:
    """Open the store, and show errors as lines; a missing SQLite file is not created to read it."""
    with faults_shown():
        store = open_store(config.store.url) if change else open_existing(config.store.url)
    try:
        yield store
    except StoreUnavailable as exc:
        raise Faults((f"store.url: {exc.message}",)) from exc
    except CallerError as exc:
        raise Faults((exc.message,)) from exc
    finally:
        store.close()
