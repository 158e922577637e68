"""Cross-checks of `budgets`: names, amounts, time zones, and the cheaper model."""

from collections.abc import Sequence

from strowger_gateway.gateway.config.checks.known_prices import has_prices, is_priced
from strowger_gateway.gateway.config.checks.limits import check_names, check_reserved, check_scope
from strowger_gateway.gateway.config.model_patterns import covers
from strowger_gateway.gateway.config.own_rules import budgets_of_teams
from strowger_gateway.gateway.config.problems import Found, Path, Problems, nearest
from strowger_gateway.gateway.config.schema.budgets import Budget, UseModel
from strowger_gateway.gateway.config.schema.config import Config, Model
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
    elif budget.usd is None or budget.unknown_price != "deny":
        return
    elif not has_prices(config):
        problems.warn(
            (*path, "usd"),
            "refuses every request: no backend has a price, neither in prices nor in the catalogue",
        )
    else:
        _unpriced(budget, (*path, "usd"), config, problems)


def _unpriced(budget: Budget, path: Path, config: Config, problems: Problems) -> None:
    """Warn of models that a budget refuses, because it cannot know what they cost."""
    for model in config.models:
        if not covers(budget.models, model.name, *model.aliases):
            continue
        backend = _first_unpriced(model, config, set())
        if backend:
            problems.warn(
                path,
                "refuses every request to ",
                Found(model.name),
                ", because its backend ",
                Found(backend),
                " has no price; add a row to prices (input: 0, output: 0 if it costs nothing), or "
                "set unknown_price",
            )


def _first_unpriced(model: Model, config: Config, seen: set[str]) -> str:
    """A backend that may answer for a model, also as a fallback, and has no price; else ""."""
    seen.add(model.name)
    names = [f"{ref.provider}/{ref.model}" for ref in model.backends]
    for rule in model.when:
        names += rule.backends
    for name in names:
        if not name.endswith("/*") and not is_priced(name, config):
            return name
    by_name = {one.name: one for one in config.models}
    for other in model.fallback:
        if other in by_name and other not in seen:
            found = _first_unpriced(by_name[other], config, seen)
            if found:
                return found
    return ""


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
