"""What one budget counts of what was spent, in its own unit."""

from decimal import Decimal
from functools import lru_cache
from typing import Final, Literal

from strowger_gateway.gateway.config.model_patterns import covers
from strowger_gateway.gateway.config.schema.budgets import Budget, CountUsd
from strowger_gateway.gateway.governance.budgets.calendar import Period, period_of
from strowger_gateway.gateway.governance.limits.scope import subject_of
from strowger_gateway.gateway.storage.sql.spend_rows import NANOS, Amount, Payer

Unit = Literal["usd", "tokens"]

UNKNOWN: Final = -1
"""The cost of a request that may go to a backend without a price."""


def unit_of(budget: Budget) -> Unit:
    return "tokens" if budget.usd is None else "usd"


def allowed(budget: Budget) -> int:
    """How much a period has: tokens, or 10⁻⁹ US dollars."""
    return nanos(budget.usd) if budget.usd is not None else budget.tokens or 0


@lru_cache(maxsize=1024)
def nanos(usd: float) -> int:
    """10⁻⁹ US dollars. The decimal digits count: 0.1 is a tenth, not its binary neighbour."""
    return int((Decimal(repr(usd)) * NANOS).to_integral_value())


def unknown_nanos(budget: Budget) -> int | None:
    """What an attempt of unknown cost counts; `None` if it is not allowed."""
    rule = budget.unknown_price
    return nanos(rule.count_usd) if isinstance(rule, CountUsd) else None


def counted(budget: Budget, amount: Amount) -> int:
    """An amount in the budget's unit."""
    if budget.usd is None:
        return amount.tokens
    return amount.nanos + amount.unpriced * (unknown_nanos(budget) or 0)


def subject_for(budget: Budget, payer: Payer) -> str | None:
    """The subject whose account pays; `None` if the budget does not apply."""
    if not covers(budget.models, payer.route, payer.model):
        return None
    return subject_of(budget, payer.key, payer.team, payer.user, payer.end_user)


def period_at(budget: Budget, at: float) -> Period:
    """at: Unix seconds."""
    return period_of(budget.per, budget.time_zone, at)
