"""Which budgets have passed which of their alerts, from the sums in the store."""

from collections.abc import Iterator, Sequence
from decimal import ROUND_CEILING, Decimal
from typing import Final

from msgspec import Struct

from strowger_gateway.gateway.config.schema.budgets import Budget
from strowger_gateway.gateway.config.schema.limits import Each, LimitWho
from strowger_gateway.gateway.governance.budgets.calendar import Period
from strowger_gateway.gateway.governance.budgets.rules import (
    allowed,
    counted,
    period_at,
    subject_for,
)
from strowger_gateway.gateway.governance.limits.scope import RuleIndex
from strowger_gateway.gateway.storage.sql.spend_rows import Amount, Payer, SpendReading, SpendRows

GRACE_S: Final = 600.0
"""Seconds for which a period that has ended is still watched: its last records come late."""


class Passed(Struct, frozen=True, kw_only=True):
    """A budget of one subject has passed a share of its limit. spent: in the budget's unit."""

    budget: Budget
    subject: str
    period: Period
    threshold: float
    spent: int


class SpendTotals:
    """The spend of each budget with alerts, by subject, kept up to date by what has changed."""

    def __init__(self, rows: SpendRows) -> None:
        self._rows = rows
        self._version = -1
        self._watched: tuple[tuple[Budget, Period], ...] = ()
        self._places: dict[Period, RuleIndex[_Watched]] = {}
        self._totals: dict[tuple[int, str], int] = {}

    def passed(self, budgets: Sequence[Budget], at: float) -> list[Passed]:
        """Read the store; return what may be new since the last call, and everything at first.

        at: Unix seconds. Raises StoreUnavailable.
        """
        watched = tuple(_watched(budgets, at))
        if watched != self._watched:
            self._watched, self._version = watched, -1
            self._places = _by_period(watched)
        if not watched:
            return []
        reading = self._rows.read(self._version, self._windows(), "")
        if reading.changes is None and self._version >= 0:
            self._version = -1
            reading = self._rows.read(-1, self._windows(), "")
        changed = self._sum(reading) if self._version < 0 else self._add(reading)
        self._version = reading.version
        return [one for place in changed for one in self._passed(*place)]

    def forget(self) -> None:
        """Return everything again with the next call."""
        self._version = -1

    def _windows(self) -> list[tuple[int, int]]:
        if self._version >= 0:
            return []
        return [(period.begin, period.end) for period in self._places]

    def _sum(self, reading: SpendReading) -> set[tuple[int, str]]:
        self._totals = {}
        for watched, whole in zip(self._places.values(), reading.whole, strict=True):
            for payer, amount in whole.items():
                for one in watched.of_key(payer.key):
                    self._count(one.number, payer, amount)
        return set(self._totals)

    def _add(self, reading: SpendReading) -> set[tuple[int, str]]:
        changed: set[tuple[int, str]] = set()
        for one in reading.changes or ():
            for period, watched in self._places.items():
                if period.has(one.slot):
                    for each in watched.of_key(one.payer.key):
                        changed |= self._count(each.number, one.payer, one.amount)
        return changed

    def _count(self, number: int, payer: Payer, amount: Amount) -> set[tuple[int, str]]:
        budget = self._watched[number][0]
        subject = subject_for(budget, payer)
        if subject is None:
            return set()
        place = number, subject
        self._totals[place] = self._totals.get(place, 0) + counted(budget, amount)
        return {place}

    def _passed(self, number: int, subject: str) -> Iterator[Passed]:
        budget, period = self._watched[number]
        spent = self._totals[number, subject]
        for threshold in sorted(set(budget.alerts)):
            if spent >= amount_at(budget, threshold):
                yield Passed(
                    budget=budget, subject=subject, period=period, threshold=threshold, spent=spent
                )


class _Watched(Struct, frozen=True):
    """A budget in one of its periods. number: its place among all of them."""

    number: int
    budget: Budget

    @property
    def name(self) -> str:
        return self.budget.name

    @property
    def who(self) -> LimitWho:
        return self.budget.who

    @property
    def each(self) -> Each | None:
        return self.budget.each

    @property
    def models(self) -> tuple[str, ...]:
        return self.budget.models


def _by_period(watched: Sequence[tuple[Budget, Period]]) -> dict[Period, RuleIndex[_Watched]]:
    found: dict[Period, list[_Watched]] = {}
    for number, (budget, period) in enumerate(watched):
        found.setdefault(period, []).append(_Watched(number, budget))
    return {period: RuleIndex(rules) for period, rules in found.items()}


def amount_at(budget: Budget, threshold: float) -> int:
    """The least amount that has passed a share of the budget, at least 1.

    The decimal digits count: 0.1 is a tenth, not its binary neighbour.
    """
    exact = Decimal(repr(threshold)) * allowed(budget)
    return max(1, int(exact.to_integral_value(ROUND_CEILING)))


def _watched(budgets: Sequence[Budget], at: float) -> Iterator[tuple[Budget, Period]]:
    for budget in budgets:
        if budget.alerts:
            now, before = period_at(budget, at), period_at(budget, at - GRACE_S)
            yield budget, now
            if before != now:
                yield budget, before
