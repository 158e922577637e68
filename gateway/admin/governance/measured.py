"""What the leader's metrics say of budgets and limits now, for the page."""

from collections.abc import Mapping
from typing import Final

from msgspec import Struct

from gateway.budgets.calendar import FOREVER
from gateway.budgets.rules import period_at
from gateway.config.schema.config import Config
from gateway.state import Gateway
from gateway.telemetry.metric_snapshot import merge

_Place = tuple[str, ...]
_BUDGET: Final = ("limit", "spent", "reserved")
_LIMIT: Final = ("allowed", "used")


class BudgetState(Struct, frozen=True, kw_only=True):
    """One budget of one subject in its period. Amounts in US dollars, or in tokens.

    begin, end: of the period, Unix seconds; `None`: it never ends.
    """

    name: str
    subject: str
    usd: bool
    per: str
    time_zone: str
    limit: float
    spent: float
    reserved: float
    begin: float
    end: float | None

    @property
    def left(self) -> float:
        return max(0.0, self.limit - self.spent - self.reserved)

    def forecast(self, now: float) -> float | None:
        """What is spent at the end if it goes on as so far; `None` in the first hundredth."""
        if self.end is None or now <= self.begin:
            return None
        passed = (now - self.begin) / (self.end - self.begin)
        return self.spent / passed if passed > 0.01 else None


class LimitState(Struct, frozen=True, kw_only=True):
    """One quantity of one limit and subject. per: its period. refused: requests, since the start,
    of all subjects."""

    name: str
    subject: str
    quantity: str
    per: str
    allowed: float
    used: float
    refused: float


async def budget_states(gateway: Gateway, now: float) -> list[BudgetState]:
    """The budgets in the configuration's order. Raises Unavailable. now: Unix seconds."""
    found = await _values(gateway, "strowger_budget_", _BUDGET)
    config = gateway.runtime.config
    budgets = {budget.name: budget for budget in config.budgets}
    states: list[BudgetState] = []
    for (name, subject, unit), values in found.items():
        budget = budgets.get(name)
        if budget is None:
            continue
        period = period_at(budget, now)
        states.append(
            BudgetState(
                name=name,
                subject=subject,
                usd=unit == "usd",
                per=budget.per,
                time_zone=budget.time_zone,
                **values,
                begin=period.begin,
                end=None if period.end == FOREVER else period.end,
            )
        )
    order = list(budgets)
    return sorted(states, key=lambda one: (order.index(one.name), -one.spent, one.subject))


async def limit_states(gateway: Gateway) -> list[LimitState]:
    """The limits in the configuration's order, the fullest subject first. Raises Unavailable."""
    found = await _values(gateway, "strowger_limit_", _LIMIT)
    refused = await _refused(gateway)
    limits = {limit.name: limit for limit in gateway.runtime.config.limits}
    states = [
        LimitState(
            name=name,
            subject=subject,
            quantity=quantity,
            per="" if quantity == "concurrent" else limits[name].per,
            **values,
            refused=refused.get((name, quantity), 0.0),
        )
        for (name, subject, quantity), values in found.items()
        if name in limits
    ]
    order = list(limits)
    return sorted(
        states, key=lambda one: (order.index(one.name), -one.used / one.allowed, one.subject)
    )


def unused_limits(config: Config, states: list[LimitState]) -> list[str]:
    """The limits that no request has needed yet."""
    seen = {one.name for one in states}
    return [limit.name for limit in config.limits if limit.name not in seen]


async def _values(
    gateway: Gateway, prefix: str, names: tuple[str, ...]
) -> dict[_Place, dict[str, float]]:
    """The values of several gauges with the same labels, by those."""
    found: dict[_Place, dict[str, float]] = {}
    for family in merge((gateway.counted(), *await gateway.peers.counted())):
        name = family.name.removeprefix(prefix)
        if name in names and family.name.startswith(prefix):
            for sample in family.samples:
                place = tuple(value for _, value in sample.labels)
                found.setdefault(place, {})[name] = sample.value
    return {place: values for place, values in found.items() if len(values) == len(names)}


async def _refused(gateway: Gateway) -> Mapping[tuple[str, str], float]:
    """Requests refused by limit and quantity."""
    found: dict[tuple[str, str], float] = {}
    for family in merge((gateway.counted(), *await gateway.peers.counted())):
        if family.name == "strowger_limit_refused_requests":
            for sample in family.samples:
                labels = dict(sample.labels)
                if sample.name.endswith("_total"):
                    found[labels["limit"], labels["quantity"]] = sample.value
    return found
