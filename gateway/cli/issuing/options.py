"""The options that set the fields of a key."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Final, TypedDict, TypeVar

import click
import msgspec
from msgspec import UNSET, UnsetType

from strowger_gateway.gateway.cli.durations import DURATION, duration
from strowger_gateway.gateway.governance.issued_keys.authority import KeyFields
from strowger_gateway.gateway.governance.issued_keys.rule_text import budget_from, limit_from
from strowger_gateway.schemas.errors import InvalidRequest

F = TypeVar("F", bound=Callable[..., object])
_T = TypeVar("_T")
_RULE: Final = "FIELD=VALUE,…"


class FieldOptions(TypedDict):
    """What `field_options` passes to a command."""

    team: str | None
    user: str | None
    models: tuple[str, ...]
    max_priority: int | None
    tags: tuple[str, ...]
    expires: datetime | None
    not_before: datetime | None
    networks: tuple[str, ...]
    limits: tuple[str, ...]
    budgets: tuple[str, ...]


def instant(text: str) -> datetime:
    """Parse an RFC 3339 time, or a duration from now. Raises click.BadParameter."""
    if DURATION.fullmatch(text):
        return datetime.now(UTC) + timedelta(seconds=duration(text))
    try:
        found = datetime.fromisoformat(text)
    except ValueError as exc:
        raise click.BadParameter(
            f"{text!r} is not a time; write 90d or 2027-01-31T00:00:00Z"
        ) from exc
    return found if found.tzinfo is not None else found.replace(tzinfo=UTC)


def field_options(command: F) -> F:
    """Add the options of `create` and `change` that set fields."""
    for option in (
        click.option(
            *("--budget", "budgets"),
            multiple=True,
            metavar=_RULE,
            help="Budget of its own, such as usd=100,per=month; repeatable.",
        ),
        click.option(
            *("--limit", "limits"),
            multiple=True,
            metavar=_RULE,
            help="Limit of its own, such as requests=60,per=minute; repeatable.",
        ),
        click.option("--network", "networks", multiple=True, help="Only from here; repeatable."),
        click.option("--tag", "tags", multiple=True, help="Free text for reports; repeatable."),
        click.option(
            "--not-before", type=instant, metavar="TIME", help="Valid from this time, UTC."
        ),
        click.option(
            "--expires", type=instant, metavar="TIME", help="Valid for so long, or until; UTC."
        ),
        click.option("--max-priority", type=click.IntRange(1, 5), help="Most urgent priority."),
        click.option("--model", "models", multiple=True, help="Model it may use; repeatable."),
        click.option("--user", help="Person or program that it is for."),
        click.option("--team", help="A team of the configuration."),
    ):
        command = option(command)
    return command


def fields_of(options: FieldOptions) -> KeyFields:
    """Return the fields that are given. Raises InvalidRequest."""
    fields = KeyFields(
        team=_or_unset(options["team"]),
        user=_or_unset(options["user"]),
        models=options["models"] or UNSET,
        max_priority=_or_unset(options["max_priority"]),
        tags=options["tags"] or UNSET,
        expires=_or_unset(options["expires"]),
        not_before=_or_unset(options["not_before"]),
        allowed_networks=options["networks"] or UNSET,
        limits=tuple(map(limit_from, options["limits"])) or UNSET,
        budgets=tuple(map(budget_from, options["budgets"])) or UNSET,
    )
    try:
        return msgspec.convert(msgspec.to_builtins(fields), KeyFields)
    except msgspec.ValidationError as exc:
        raise InvalidRequest(str(exc)) from exc


def _or_unset(value: _T | None) -> _T | UnsetType:
    return UNSET if value is None else value
