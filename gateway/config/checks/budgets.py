"""Cross-checks of `budgets`: names, amounts, time zones, and the cheaper model."""

from collections.abc import Sequence

from strowger_gateway.gateway.config.checks.limits import check_names, check_reserved, check_scope
from strowger_gateway.gateway.config.own_rules import budgets_of_teams
from strowger_gateway.gateway.config.problems import Found, Path, Problems, nearest
from strowger_gateway.gateway.config.schema.budgets import Budget, UseModel
from strowger_gateway.gateway.config.schema.config import Config
from strowger_gateway.gateway.platform.time_zones import zone_named


def check_budgets(config: Config, problems: Problems) -> None:
    check_reserved(config.budgets, ("budgets",), problems)
    check_budget_list(config.budgets, ("budgets",), config, problems)
    for index, team in enumerate(config.teams):
        own = budgets_of_teams((team,))
        check_budget_list(own, ("teams", index, "budgets"), config, problems)


def check_budget_list(
    budgets: Sequence[Budget], parent: Path, config: Config, problems: Problems
) -> None:
    """Check the budgets of the file, of a team or of an issued key. parent: of their list."""
    check_names(budgets, parent, problems)
    for index, budget in enumerate(budgets):
        path = (*parent, index)
        check_scope(budget, path, config, problems, "budget")
        _amount(budget, path, config, problems)
        _time_zone(budget, path, problems)
        _cheaper(budget, path, config, problems)


def _amount(budget: Budget, path: Path, config: Config, problems: Problems) -> None:
    if (budget.usd is None) == (budget.tokens is None):
        if not problems.at((*path, "usd")) and not problems.at((*path, "tokens")):
            problems.add(path, "needs exactly one of usd and tokens")
    elif budget.usd is not None and budget.unknown_price == "deny" and not has_prices(config):
        problems.warn((*path, "usd"), "refuses every request: the configuration has no prices")


def has_prices(config: Config) -> bool:
    """Whether any cost can be known."""
    return bool(config.prices) or config.prices_from == "catalogue"


def _time_zone(budget: Budget, path: Path, problems: Problems) -> None:
    place = (*path, "time_zone")
    try:
        zone_named(budget.time_zone)
    except (ValueError, OSError, LookupError):
        if not problems.at(place):
            text = " is not a time zone that this machine knows; write it as Europe/Berlin"
            problems.add(place, Found(budget.time_zone), text)


def _cheaper(budget: Budget, path: Path, config: Config, problems: Problems) -> None:
    place = (*path, "on_exceeded", "use_model")
    if not isinstance(budget.on_exceeded, UseModel) or problems.under(place):
        return
    name = budget.on_exceeded.use_model
    names = [model.name for model in config.models if not model.name.endswith("*")]
    if name not in names and not problems.under(("models",)):
        problems.add(place, "no model is named ", Found(name), nearest(name, names))
