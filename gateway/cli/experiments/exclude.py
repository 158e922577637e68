"""`strowger experiments exclude` and `include`: leave out what a unit or an API key has sent."""

import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import click

from strowger_gateway.gateway.audit.event import Action, AuditEvent
from strowger_gateway.gateway.cli.config_loading import Faults, config_option, load
from strowger_gateway.gateway.cli.experiments.history import known_name, opened, require_store
from strowger_gateway.gateway.cli.os_user import os_user
from strowger_gateway.gateway.config.schema.config import Config
from strowger_gateway.gateway.experiments.trust.exclusions import add_exclusion, end_exclusion
from strowger_gateway.gateway.routing.planning.enrolment import unit_hash
from strowger_gateway.gateway.storage.sql.experiments.exclusions import ExcludedName, Kind

_F = TypeVar("_F", bound=Callable[..., object])
Subject = tuple[Kind, str]


def _subject_options(command: _F) -> _F:
    for option in (
        click.option("--key", help="Name of an API key; '' for requests without one."),
        click.option("--user", help="Name of the user, session or header value that is the unit."),
        click.option("--unit", help="Hash of the unit, as in reports, votes and exports."),
    ):
        command = option(command)
    return command


@click.command()
@click.argument("name")
@_subject_options
@click.option("--reason", default="", help="Shown in reports.")
@config_option
def exclude(
    name: str, unit: str | None, user: str | None, key: str | None, reason: str, path: Path
) -> None:
    """Leave out a unit, or all units of an API key, from every report of experiment NAME.

    Also from harm limits, the split test and later requests, until `include`. Works for experiments
    that were removed from the configuration, too.
    """
    kind, subject = _subject(name, unit, user, key)
    config = load(path)
    require_store(config)
    by = os_user()
    one = ExcludedName(kind=kind, name=subject, reason=reason, by=by.label, at=time.time())
    with opened(config) as store:
        known_name(config, store, name)
        event = _event(config, "experiment.exclude", name, kind, subject, reason)
        found = add_exclusion(store, name, one, event)
    if found is None:
        raise Faults((f'{kind} "{subject}" has sent no request of {name}',))
    click.echo(f"{name}: {found.sentence}")


@click.command()
@click.argument("name")
@_subject_options
@config_option
def include(name: str, unit: str | None, user: str | None, key: str | None, path: Path) -> None:
    """End an exclusion of `strowger experiments exclude`: the reports count the unit or key."""
    kind, subject = _subject(name, unit, user, key)
    config = load(path)
    require_store(config)
    with opened(config) as store:
        known_name(config, store, name)
        event = _event(config, "experiment.include", name, kind, subject, "")
        was = end_exclusion(store, name, kind, subject, event)
    if not was:
        raise Faults((f'{kind} "{subject}" is not excluded from {name}',))
    click.echo(f'{name}: {kind} "{subject}" counts again')


def _subject(name: str, unit: str | None, user: str | None, key: str | None) -> Subject:
    given = [one for one in (unit, user, key) if one is not None]
    if len(given) != 1:
        raise click.UsageError("give one of --unit, --user and --key")
    if key is not None:
        return "key", key
    return "unit", unit_hash(name, given[0]) if unit is None else unit


def _event(
    config: Config, action: Action, name: str, kind: Kind, subject: str, reason: str
) -> AuditEvent | None:
    if config.audit.log != "on":
        return None
    return AuditEvent.by(os_user(), action, target=name, reason=reason, facts={kind: subject})
