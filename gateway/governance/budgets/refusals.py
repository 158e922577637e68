"""The errors that clients get for requests that a budget refuses."""

import random
from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Final

from strowger_gateway.gateway.config.schema.budgets import Budget, UseModel
from strowger_gateway.gateway.governance.budgets.ledger import Shortfall
from strowger_gateway.gateway.platform.time_zones import zone_named
from strowger_gateway.gateway.storage.sql.spend_rows import NANOS
from strowger_gateway.schemas.errors import BudgetExceeded, PriceUnknown

SOONEST_S: Final = 1.0
LATEST_S: Final = 4.0
"""When to retry if running requests have reserved what is missing, seconds. Clients that were
refused together do not come back together."""


def price_unknown(budget: str, backend: str) -> PriceUnknown:
    """Return the error of a budget that needs the price of a backend."""
    return PriceUnknown(
        f"the budget {budget!r} needs the price of {backend}; the operator "
        "can add it to prices, or set the budget's unknown_price"
    )


def budget_exceeded(budget: Budget, short: Shortfall, now: float) -> BudgetExceeded:
    """Return the error. now: Unix seconds."""
    if short.only_reserved:
        wait_s = random.uniform(SOONEST_S, LATEST_S)
        return BudgetExceeded(_reserved(budget, short), retry_after=wait_s)
    wait_s = None if short.resets is None else max(1.0, short.resets - now)
    if short.need > short.limit:
        wait_s = None
    return BudgetExceeded(_message(budget, short), retry_after=wait_s)


def lasting(short: Shortfall) -> float:
    """How long a budget lacks room, for comparisons: until it begins again, Unix seconds."""
    if short.only_reserved:
        return 0.0
    if short.resets is None or short.need > short.limit:
        return float("inf")
    return short.resets


def cheaper_model(short: Iterable[Shortfall], named: Mapping[str, Budget]) -> tuple[str, str]:
    """The first budget without room that has a cheaper model, and the model; "" without one."""
    for one in short:
        rule = named[one.budget].on_exceeded if one.budget in named else None
        if isinstance(rule, UseModel):
            return one.budget, rule.use_model
    return "", ""


def _reserved(budget: Budget, short: Shortfall) -> str:
    free = short.limit - short.spent
    return (
        f"{_named(budget, short)} has {shown(budget, free)} left, of which "
        f"{shown(budget, max(0, free - short.left))} is reserved by running requests, and this "
        f"request may use {shown(budget, short.need)}; retry in a few seconds"
    )


def _named(budget: Budget, short: Shortfall) -> str:
    per = "in all" if budget.per == "total" else f"per {budget.per}"
    return f"the budget {budget.name!r} of {shown(budget, short.limit)} {per}"


def _message(budget: Budget, short: Shortfall) -> str:
    what = _named(budget, short)
    if short.need > short.limit or short.left:
        lower = "; lower max_tokens or shorten the prompt"
        what += f" has {shown(budget, short.left)} left, and this request may use "
        what += f"{shown(budget, short.need)}{lower}"
    else:
        what += " is used up"
    if short.resets is None or short.need > short.limit:
        return what
    at = datetime.fromtimestamp(short.resets, zone_named(budget.time_zone)).isoformat()
    return f"{what}; it begins again at {at}"


def shown(budget: Budget, amount: int) -> str:
    """Return an amount of a budget in its unit."""
    if budget.usd is None:
        return f"{amount} tokens"
    text = f"{amount // NANOS}.{amount % NANOS:09}".rstrip("0").rstrip(".")
    return f"{text} USD"
