"""`strowger budgets`: what each budget has spent, reserved and left."""

import time
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from zoneinfo import ZoneInfo

import click
import msgspec
from rich.markup import escape

from strowger_gateway.gateway.cli.config_loading import config_option, faults_shown, load
from strowger_gateway.gateway.cli.standings.whose_options import whose_options
from strowger_gateway.gateway.cli.tables import show, table_of
from strowger_gateway.gateway.config.schema.budgets import Budget
from strowger_gateway.gateway.config.schema.config import Config
from strowger_gateway.gateway.governance.budgets.report import (
    BudgetOverview,
    BudgetStanding,
    budget_report,
)
from strowger_gateway.gateway.governance.end_users.table import hashed
from strowger_gateway.gateway.governance.end_users.whose import whose_of
from strowger_gateway.gateway.governance.issued_keys.rules_in_force import budgets_in_force
from strowger_gateway.gateway.governance.limits.scope import Whose
from strowger_gateway.gateway.storage.sql.errors import StoreUnavailable
from strowger_gateway.gateway.storage.sql.key_rows import IssuedKey
from strowger_gateway.gateway.storage.sql.open import open_existing
from strowger_gateway.schemas.errors import InvalidConfig, InvalidRequest


@click.command()
@config_option
@whose_options
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def budgets(path: Path, key: str, end_user: str, team: str, user: str, as_json: bool) -> None:
    """Show the budgets of the configuration and of issued keys, from the store.

    RESERVED is held by running gateways, for requests in flight and records not stored yet.
    FORECAST is what will be spent at the end of the period at the rate of the last hours or days,
    and USED UP when the budget is spent at that rate.
    """
    config = load(path)
    budgets, report = _read(config, Whose(key=key, team=team, user=user, end_user=end_user))
    if as_json:
        click.echo(msgspec.json.format(msgspec.json.encode(report)))
    elif not budgets:
        click.echo(f"{path}: has no budgets, and no issued key has one")
    elif not report.budgets:
        click.echo(f"{path}: has no budget that applies")
    else:
        _table(report, budgets)


def _read(config: Config, asked: Whose) -> tuple[tuple[Budget, ...], BudgetOverview]:
    """asked: with the end user's text."""
    with faults_shown():
        store = open_existing(config.store.url)
        try:
            issued = store.issued_keys.current().keys if config.auth.mode == "keys" else ()
            budgets = budgets_in_force(config, issued)
            return budgets, budget_report(
                budgets, store, time.time(), _whose(config, issued, asked)
            )
        except StoreUnavailable as exc:
            raise InvalidConfig((f"store.url: {exc}",)) from exc
        finally:
            store.close()


def _whose(config: Config, issued: Sequence[IssuedKey], asked: Whose) -> Whose | None:
    keys = {key.name: (key.team, key.user) for key in issued if key.revoked is None}
    keys |= {key.name: (key.team or "", "") for key in config.auth.keys}
    try:
        return whose_of(
            config,
            asked.key,
            asked.end_user,
            keys.get,
            lambda: keys,
            lambda _, end_user: hashed(end_user),
            Whose(key=asked.key, team=asked.team, user=asked.user),
        )
    except InvalidRequest as exc:
        raise click.UsageError(exc.message) from exc


def _table(report: BudgetOverview, budgets: tuple[Budget, ...]) -> None:
    zones = {budget.name: budget.time_zone for budget in budgets}
    named = any(one.subject for one in report.budgets)
    subject = ("SUBJECT",) if named else ()
    columns = ("SPENT", "%", "RESERVED", "LEFT", "LIMIT", "RESETS", "FORECAST", "USED UP", "ALERTS")
    table = table_of("BUDGET", *subject, *columns)
    for one in report.budgets:
        table.add_row(
            escape(one.budget),
            *((escape(one.subject),) if named else ()),
            _amount(one, one.spent),
            f"{100 * one.share:.0f}",
            _amount(one, one.reserved),
            _amount(one, one.left),
            _amount(one, one.limit),
            _time(one.resets, zones[one.budget]),
            "" if one.forecast is None else _amount(one, one.forecast),
            "" if one.used_up_at is None else _time(one.used_up_at, zones[one.budget]),
            ", ".join(f"{100 * a.threshold:g} %" for a in one.alerts if a.passed is not None),
        )
    show(table)
    for name, count in report.omitted.items():
        click.echo(f"{name}: and {count:,} subjects that have spent less", err=True)


def _amount(one: BudgetStanding, amount: float) -> str:
    if one.unit == "tokens":
        return f"{amount:,.0f} tokens"
    digits = 2 if amount >= 1 or not amount else 6
    return f"{amount:,.{digits}f} USD"


def _time(at: float | None, zone: str) -> str:
    if at is None:
        return "never"
    return datetime.fromtimestamp(at, ZoneInfo(zone)).strftime("%Y-%m-%d %H:%M %Z")
