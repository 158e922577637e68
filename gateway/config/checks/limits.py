"""Cross-checks of `limits`: names, whose requests they count, and what they limit."""

from collections.abc import Iterable, Sequence

from strowger_gateway.gateway.config.checks.identities import token_caller
from strowger_gateway.gateway.config.checks.models import check_model_patterns
from strowger_gateway.gateway.config.own_rules import PREFIXES, limits_of_plans, limits_of_teams
from strowger_gateway.gateway.config.problems import Found, Path, Problems, nearest
from strowger_gateway.gateway.config.schema.budgets import Budget
from strowger_gateway.gateway.config.schema.config import Config
from strowger_gateway.gateway.config.schema.guardrails import GuardrailConfig
from strowger_gateway.gateway.config.schema.limits import Limit

Rule = Limit | Budget | GuardrailConfig
"""Whatever has `who` and `models`."""

_WHO = ("key", "team", "user")


def check_limits(config: Config, problems: Problems) -> None:
    check_reserved(config.limits, ("limits",), problems)
    check_limit_list(config.limits, ("limits",), config, problems)
    for index, team in enumerate(config.teams):
        own = limits_of_teams((team,))
        check_limit_list(own, ("teams", index, "limits"), config, problems)
    names: dict[str, int] = {}
    for index, plan in enumerate(config.plans):
        place: Path = ("plans", index, "name")
        first = names.setdefault(plan.name, index)
        if first != index and not problems.at(place):
            problems.add(place, Found(plan.name), f" is already the name of plans[{first}]")
        check_limit_list(limits_of_plans((plan,)), ("plans", index, "limits"), config, problems)


def check_limit_list(
    limits: Sequence[Limit], parent: Path, config: Config, problems: Problems
) -> None:
    """Check the limits of the file, of a team or of an issued key. parent: of their list."""
    check_names(limits, parent, problems)
    for index, limit in enumerate(limits):
        path = (*parent, index)
        check_scope(limit, path, config, problems)
        quantities = (limit.requests, limit.tokens, limit.concurrent)
        if quantities == (None, None, None) and not problems.under(path):
            problems.add(path, "limits nothing; set requests, tokens or concurrent")


def check_reserved(rules: Iterable[Limit | Budget], parent: Path, problems: Problems) -> None:
    """Keep rules of the file apart from those that teams and issued keys have themselves."""
    for index, rule in enumerate(rules):
        if rule.name.startswith(PREFIXES):
            text = " begins like the names of what keys and teams have themselves; use another"
            problems.add((*parent, index, "name"), Found(rule.name), text)


def check_names(rules: Iterable[Limit | Budget], parent: Path, problems: Problems) -> None:
    """Check that each rule of a list has a name of its own."""
    names: dict[str, int] = {}
    for index, rule in enumerate(rules):
        path: Path = (*parent, index, "name")
        first = names.setdefault(rule.name, index)
        if first != index and not problems.at(path):
            text = f" is already the name of {parent[-1]}[{first}]"
            problems.add(path, Found(rule.name.rpartition("/")[2] or rule.name), text)


def check_scope(
    rule: Rule,
    path: Path,
    config: Config,
    problems: Problems,
    kind: str = "limit",
) -> None:
    """Check whose requests the rule is about, and for which models. kind: for messages."""
    _who(rule, path, config, problems, kind)
    check_model_patterns(rule.models, (*path, "models"), config, problems)


def _who(limit: Rule, path: Path, config: Config, problems: Problems, kind: str) -> None:
    who, place = limit.who, (*path, "who")
    if problems.under(place):
        return
    chosen = [name for name in _WHO if getattr(who, name) is not None]
    if who.any:
        chosen.append("any")
    if len(chosen) != 1:
        problems.add(place, "needs exactly one of key, team, user and any")
        return
    if limit.each is not None and limit.each != "end_user" and not who.any:
        problems.add((*path, "each"), "is only for who: {any: true}")
    if limit.each == "key" and config.auth.mode == "none":
        problems.warn((*path, "each"), "has no effect: auth.mode none knows no keys")
    if who.team is not None and not problems.under(("teams",)):
        teams = [team.name for team in config.teams]
        if who.team not in teams:
            text = nearest(who.team, teams)
            problems.add((*place, "team"), "no team is named ", Found(who.team), text)
    known = [key.name for key in config.auth.keys]
    if who.key is None or who.key in known or problems.under(("auth",)):
        return
    if not token_caller(who.key, config):
        text = f", so the {kind} applies only to an issued key of that name"
        problems.warn((*place, "key"), "auth.keys has no key ", Found(who.key), text)
