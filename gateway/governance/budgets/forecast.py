"""What a budget will have spent, and when it is used up, at the rate of the last hours or days.

The rate is that of the recent past, from the store's first record on: a gateway that began today
has no rate of last week, and a team that doubled its traffic yesterday is not the team of the whole
month.
"""

from collections.abc import Mapping
from typing import Final

from strowger_gateway.gateway.config.schema.budgets import Per
from strowger_gateway.gateway.governance.budgets.calendar import FOREVER, Period
from strowger_gateway.gateway.storage.sql.spend_rows import SLOT_S, slot_of

RECENT_S: Final[Mapping[Per, int]] = {
    "day": 3 * 3600,
    "week": 86_400,
    "month": 7 * 86_400,
    "total": 7 * 86_400,
}
"""The time whose rate counts, by the budget's period: long enough for its nights and weekends."""


LEAST_S: Final = 300.0
"""The shortest time of which there is a rate: the first request is no trend."""


def recent(per: Per, at: float, first: float | None) -> Period | None:
    """Return the slots whose spend makes the rate; `None` if nothing is recorded.

    at: Unix seconds. first: when the store's first request ended.
    """
    if first is None:
        return None
    return Period(slot_of(max(at - RECENT_S[per], first)), slot_of(at) + SLOT_S)


def rate_in(window: Period, spent: int, first: float, at: float) -> float:
    """Return what is spent per second. spent: in the window, which ends with the slot of `at`.

    first: as of `recent`; a window that begins with it is shorter than its slots.
    """
    return spent / max(at - max(window.begin, first), LEAST_S)


def forecast(period: Period, spent: int, rate: float, at: float) -> int | None:
    """Return what will be spent at the end of the period; `None` if it has no end."""
    if period.end == FOREVER:
        return None
    return round(spent + rate * max(period.end - at, 0.0))


def used_up_at(period: Period, spent: int, limit: int, rate: float, at: float) -> float | None:
    """Return when the limit is reached, Unix seconds, if that is within the period.

    `at` itself if it is reached already; `None` if it is not reached before the period ends.
    """
    if spent >= limit:
        return at
    if rate <= 0.0:
        return None
    reached = at + (limit - spent) / rate
    return reached if reached < period.end else None
