"""Check the limits and budgets of an issued key by the rules for those of the configuration."""

from strowger_gateway.gateway.config.checks.budgets import check_budget_list
from strowger_gateway.gateway.config.checks.known_prices import has_prices
from strowger_gateway.gateway.config.checks.limits import check_limit_list
from strowger_gateway.gateway.config.model_patterns import covers
from strowger_gateway.gateway.config.own_rules import budget_of, limit_of
from strowger_gateway.gateway.config.problems import Problems
from strowger_gateway.gateway.config.schema.budgets import Budget, UseModel
from strowger_gateway.gateway.config.schema.config import Config
from strowger_gateway.gateway.config.schema.limits import LimitWho
from strowger_gateway.gateway.storage.sql.key_rows import IssuedKey
from strowger_gateway.schemas.errors import InvalidConfig, InvalidRequest

_SOURCE = "key"


def check_rules(key: IssuedKey, config: Config) -> None:
    """Raises InvalidRequest, which names the field and the remedy."""
    who, problems = LimitWho(key=key.name), Problems(_SOURCE)
    limits = tuple(limit_of(who, one) for one in key.limits)
    budgets = tuple(budget_of(who, one) for one in key.budgets)
    check_limit_list(limits, ("limits",), config, problems)
    check_budget_list(budgets, ("budgets",), config, problems)
    for index, budget in enumerate(budgets):
        if budget.usd is not None and budget.unknown_price == "deny" and not has_prices(config):
            problems.add(
                ("budgets", index, "usd"),
                "would refuse every request, because the configuration has no prices; "
                "set unknown_price, or limit tokens",
            )
        if not may_move(key, budget, config) and not problems.at(("budgets", index)):
            problems.add(
                ("budgets", index, "on_exceeded", "use_model"),
                "the key and its team may not use this model; add it to models",
            )
    try:
        problems.raise_if_any()
    except InvalidConfig as exc:
        text = exc.problems[0].removeprefix(f"{_SOURCE}: ")
        raise InvalidRequest(text, param=text.partition(": ")[0]) from None


def may_move(key: IssuedKey, budget: Budget, config: Config) -> bool:
    """Whether the key itself may use the model to which its budget would send requests.

    Who may change a key is not always who may grant models, as an operator of one team.
    """
    if not isinstance(budget.on_exceeded, UseModel):
        return True
    wanted = budget.on_exceeded.use_model
    aliases = (name for one in config.models if one.name == wanted for name in one.aliases)
    names = (wanted, *aliases)
    of_team = [one.models for one in config.teams if one.name == key.team]
    return all(covers(patterns, *names) for patterns in (key.models, *of_team))
