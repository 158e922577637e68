"""Limits and budgets that a team, a plan or an issued key has itself, as rules like all others."""

from collections.abc import Iterable
from typing import Final

from msgspec.structs import replace

from strowger_gateway.gateway.config.schema.auth import CallerPlan, Team
from strowger_gateway.gateway.config.schema.budgets import Budget, OwnBudget
from strowger_gateway.gateway.config.schema.config import Config
from strowger_gateway.gateway.config.schema.limits import Limit, LimitWho, OwnLimit

PREFIXES: Final = ("key:", "team:", "plan:")
"""How the full names of such rules begin: `key:ci/minute`. No other rule may be named so."""


def limit_of(who: LimitWho, own: OwnLimit) -> Limit:
    """Return the limit with its full name. who: of the key or the team."""
    return Limit(
        name=f"{_owner(who)}/{own.name or own.per}",
        who=who,
        each=own.each,
        models=own.models,
        requests=own.requests,
        tokens=own.tokens,
        concurrent=own.concurrent,
        per=own.per,
        exact=own.exact,
        wait_s=own.wait_s,
        on_outage=own.on_outage,
    )


def budget_of(who: LimitWho, own: OwnBudget) -> Budget:
    """Return the budget with its full name. who: of the key or the team."""
    return Budget(
        name=f"{_owner(who)}/{own.name or own.per}",
        who=who,
        each=own.each,
        models=own.models,
        usd=own.usd,
        tokens=own.tokens,
        per=own.per,
        time_zone=own.time_zone,
        alerts=own.alerts,
        on_exceeded=own.on_exceeded,
        unknown_price=own.unknown_price,
        on_outage=own.on_outage,
    )


def limits_of_teams(teams: Iterable[Team]) -> tuple[Limit, ...]:
    return tuple(limit_of(LimitWho(team=team.name), own) for team in teams for own in team.limits)


def limits_of_plans(plans: Iterable[CallerPlan]) -> tuple[Limit, ...]:
    """Return the limits of plans: of each of their callers, or its end users, for itself."""
    return tuple(
        replace(
            limit_of(LimitWho(any=True), own),
            name=f"plan:{plan.name}/{own.name or own.per}",
            each=own.each or "key",
            plan=plan.name,
        )
        for plan in plans
        for own in plan.limits
    )


def budgets_of_teams(teams: Iterable[Team]) -> tuple[Budget, ...]:
    return tuple(budget_of(LimitWho(team=team.name), own) for team in teams for own in team.budgets)


def configured_limits(config: Config) -> tuple[Limit, ...]:
    """Return the limits of the file, those of its teams and plans included."""
    own = (*limits_of_teams(config.teams), *limits_of_plans(config.plans))
    return (*config.limits, *own) if own else config.limits


def configured_budgets(config: Config) -> tuple[Budget, ...]:
    """Return the budgets of the file, those of its teams included."""
    own = budgets_of_teams(config.teams)
    return (*config.budgets, *own) if own else config.budgets


def _owner(who: LimitWho) -> str:
    return f"key:{who.key}" if who.key is not None else f"team:{who.team}"
