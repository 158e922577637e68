"""The errors that clients get for requests that a budget refuses."""

from collections.abc import Iterable, Mapping
from datetime import datetime

from gateway.budgets.ledger import Short
from gateway.config.schema.budgets import Budget, UseModel
from gateway.store.spend_rows import NANOS
from gateway.time_zones import zone_named
from schemas.errors import BudgetExceeded, PriceUnknown


def price_unknown(budget: str, backend: str) -> PriceUnknown:
    """Return the error of a budget that needs the price of a backend."""
    return PriceUnknown(
        f"the budget {budget!r} needs the price of {backend}; the operator "
        "can add it to prices, or set the budget's unknown_price"
    )


def budget_exceeded(budget: Budget, short: Short, now: float) -> BudgetExceeded:
    """Return the error. now: Unix seconds."""
    wait_s = None if short.resets is None else max(1.0, short.resets - now)
    if short.need > short.limit:
        wait_s = None
    return BudgetExceeded(_message(budget, short), retry_after=wait_s)


def lasting(short: Short) -> float:
    """How long a budget lacks room, for comparisons."""
    if short.resets is None or short.need > short.limit:
        return float("inf")
    return short.resets


def cheaper_model(short: Iterable[Short], named: Mapping[str, Budget]) -> tuple[str, str]:
    """The first budget without room that has a cheaper model, and the model; "" without one."""
    for one in short:
        rule = named[one.budget].on_exceeded if one.budget in named else None
        if isinstance(rule, UseModel):
            return one.budget, rule.use_model
    return "", ""


def _message(budget: Budget, short: Short) -> str:
    per = "in all" if budget.per == "total" else f"per {budget.per}"
    what = f"the budget {budget.name!r} of {shown(budget, short.limit)} {per}"
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
