"""What each budget has left now, from the store: for `strowger budgets` and `/admin/budgets`."""

from collections.abc import Iterable, Mapping, Sequence
from heapq import nsmallest
from typing import Final, Literal, Protocol

from msgspec import Struct

from strowger_gateway.gateway.config.schema.budgets import Budget, Per
from strowger_gateway.gateway.governance.budgets.accounts import PeriodSums
from strowger_gateway.gateway.governance.budgets.alert_rows import AlertMark, AlertRows
from strowger_gateway.gateway.governance.budgets.calendar import FOREVER, Period
from strowger_gateway.gateway.governance.budgets.forecast import (
    forecast,
    rate_in,
    recent,
    used_up_at,
)
from strowger_gateway.gateway.governance.budgets.rules import (
    allowed,
    counted,
    period_at,
    subject_for,
    unit_of,
)
from strowger_gateway.gateway.governance.limits.scope import Whose, subjects_of
from strowger_gateway.gateway.storage.sql.database import Database
from strowger_gateway.gateway.storage.sql.spend_rows import NANOS, SpendRows

MOST_SUBJECTS: Final = 1000
"""Subjects of one budget in a report: those that have used the largest part of it."""

_EVERY: Final = ("", True)
"""All subjects: each begins so."""


class AlertState(Struct, frozen=True, kw_only=True):
    """threshold: share of the limit. passed: when the alert was made, Unix seconds, or `None`."""

    threshold: float
    passed: float | None


class BudgetStanding(Struct, frozen=True, kw_only=True):
    """A budget of one subject in its current period. Amounts are US dollars or tokens, see unit.

    subject:  the key, team or user with `each`, otherwise "".
    spent:    of the records in the store. reserved: what gateways hold for requests in flight,
              leases and records that are not stored yet. left: of the limit, at least 0.
    share:    of the limit that is spent.
    begins, resets: of the period, Unix seconds; `None` if it has no end.
    rate_per_hour: what is spent per hour, recently: see forecast.RECENT_S.
    forecast: spent at the end of the period at that rate; `None` if it has no end.
    used_up_at: when the limit is reached at that rate, Unix seconds; `None`: not in this period.
    """

    budget: str
    subject: str
    unit: Literal["usd", "tokens"]
    per: Per
    limit: float
    spent: float
    reserved: float
    left: float
    share: float
    begins: float | None
    resets: float | None
    rate_per_hour: float
    forecast: float | None
    used_up_at: float | None
    alerts: tuple[AlertState, ...]


class BudgetOverview(Struct, frozen=True, kw_only=True):
    """at: Unix seconds. omitted: by budget, subjects beyond MOST_SUBJECTS that used less."""

    at: float
    budgets: tuple[BudgetStanding, ...]
    omitted: dict[str, int]


class BudgetStore(Protocol):
    """The part of a store that a report needs."""

    @property
    def spend(self) -> SpendRows: ...

    @property
    def database(self) -> Database: ...


def budget_report(
    budgets: Sequence[Budget], store: BudgetStore, at: float, whose: Whose | None = None
) -> BudgetOverview:
    """Read the store. at: Unix seconds. Raises StoreUnavailable.

    whose: the caller to whose requests the budgets apply; `None`: all subjects of all budgets.
    """
    chosen = [
        (budget, subjects)
        for budget in budgets
        if (subjects := _EVERY if whose is None else subjects_of(budget, whose)) is not None
    ]
    periods = sorted({period_at(budget, at) for budget, _ in chosen}, key=lambda one: one.begin)
    first = store.spend.first_request()
    windows = {budget.per: recent(budget.per, at, first) for budget, _ in chosen}
    last = [one for one in dict.fromkeys(windows.values()) if one is not None]
    asked = [(one.begin, one.end) for one in (*periods, *last)]
    reading = store.spend.read(-1, asked, "")
    marks = AlertRows(store.database).current(at)
    found: list[BudgetStanding] = []
    omitted: dict[str, int] = {}
    read = {
        one: PeriodSums(sums) for one, sums in zip((*periods, *last), reading.whole, strict=True)
    }
    held: dict[str, dict[str, int]] = {}
    for (_, name, subject), amount in reading.held.items():
        of_budget = held.setdefault(name, {})
        of_budget[subject] = of_budget.get(subject, 0) + amount
    for budget, subjects in chosen:
        period = period_at(budget, at)
        spent = _spent(budget, read[period], subjects)
        own = {
            subject: amount
            for subject, amount in held.get(budget.name, {}).items()
            if _is_chosen(subject, subjects)
        }
        window = windows[budget.per]
        rates: dict[str, float] = {}
        if window is not None and first is not None:
            rates = {
                subject: rate_in(window, amount, first, at)
                for subject, amount in _spent(budget, read[window], subjects).items()
            }
        found += _states(budget, period, spent, _Recent(own, rates, at), marks)
        if len(spent) > MOST_SUBJECTS:
            omitted[budget.name] = len(spent) - MOST_SUBJECTS
    return BudgetOverview(at=at, budgets=tuple(found), omitted=omitted)


class _Recent(Struct, frozen=True):
    """By subject, what is held, and what is spent per second recently. at: Unix seconds."""

    held: Mapping[str, int]
    rates: Mapping[str, float]
    at: float


def _is_chosen(subject: str, subjects: tuple[str, bool]) -> bool:
    """subjects: see subjects_of."""
    name, begins = subjects
    return subject.startswith(name) if begins else subject == name


def _spent(budget: Budget, sums: PeriodSums, subjects: tuple[str, bool]) -> dict[str, int]:
    """Add up the budget's period by subject. subjects: see subjects_of."""
    name, begins = subjects
    spent: dict[str, int] = {} if budget.each and begins else {name: 0}
    for payer, amount in sums.of(budget, None if begins else name):
        subject = subject_for(budget, payer)
        if subject is not None and _is_chosen(subject, subjects):
            spent[subject] = spent.get(subject, 0) + counted(budget, amount)
    return spent


def _states(
    budget: Budget,
    period: Period,
    spent: dict[str, int],
    recent: "_Recent",
    marks: Iterable[AlertMark],
) -> list[BudgetStanding]:
    """Return MOST_SUBJECTS of the budget's subjects, those with the largest part first.

    spent: by subject; gets those that have only reserved something.
    """
    for subject in recent.held:
        spent.setdefault(subject, 0)
    passed = {
        (one.subject, one.threshold): one.created
        for one in marks
        if one.budget == budget.name and (one.begin, one.end) == (period.begin, period.end)
    }
    ordered = nsmallest(MOST_SUBJECTS, spent.items(), key=lambda one: (-one[1], one[0]))
    return [_state(budget, subject, period, used, recent, passed) for subject, used in ordered]


def _state(
    budget: Budget,
    subject: str,
    period: Period,
    spent: int,
    recent: "_Recent",
    passed: dict[tuple[str, float], float],
) -> BudgetStanding:
    limit, scale = allowed(budget), 1 if budget.usd is None else NANOS
    held, rate, at = recent.held.get(subject, 0), recent.rates.get(subject, 0.0), recent.at
    foreseen = forecast(period, spent, rate, at)
    return BudgetStanding(
        budget=budget.name,
        subject=subject,
        unit=unit_of(budget),
        per=budget.per,
        limit=limit / scale,
        spent=spent / scale,
        reserved=held / scale,
        left=max(limit - spent - held, 0) / scale,
        share=spent / limit if limit else 1.0,
        begins=None if period.end == FOREVER else float(period.begin),
        resets=period.resets,
        rate_per_hour=rate * 3600 / scale,
        forecast=None if foreseen is None else foreseen / scale,
        used_up_at=used_up_at(period, spent, limit, rate, at),
        alerts=tuple(
            AlertState(threshold=one, passed=passed.get((subject, one)))
            for one in sorted(set(budget.alerts))
        ),
    )
