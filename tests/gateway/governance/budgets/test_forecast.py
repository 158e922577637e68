"""Forecasts go by the recent rate, from the first record on, and say when a budget is used up."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strowger_gateway.gateway.config.schema.budgets import Budget, Per
from strowger_gateway.gateway.config.schema.limits import LimitWho
from strowger_gateway.gateway.governance.budgets.calendar import TOTAL, Period, period_of
from strowger_gateway.gateway.governance.budgets.forecast import (
    forecast,
    rate_in,
    recent,
    used_up_at,
)
from strowger_gateway.gateway.governance.budgets.report import budget_report
from strowger_gateway.gateway.storage.sql.open import open_store
from strowger_gateway.gateway.storage.sql.rows import Row
from strowger_gateway.gateway.storage.sql.sql import SqlStore
from strowger_gateway.schemas.secret import Secret
from tests.gateway.storage.sql.rows import attempt_row, request_row

HOUR, DAY = 3600.0, 86_400.0
NOW = 4_000_000_000.0
"""2 October 2096, 07:06:40 UTC."""


@pytest.fixture
def store(tmp_path: Path) -> Iterator[SqlStore]:
    found = open_store(Secret(f"sqlite:///{tmp_path / 'store.db'}"))
    found.prepare()
    yield found
    found.close()


def spent(store: SqlStore, name: str, usd: float, ago_s: float) -> None:
    rows: list[Row] = [
        request_row(name, key="k", time=NOW - ago_s),
        attempt_row(name, time=NOW - ago_s, cost=usd),
    ]
    store.import_rows(name, 0, 1, rows)


def budget(usd: float, per: Per = "month") -> Budget:
    return Budget(name="b", who=LimitWho(any=True), usd=usd, per=per)


def test_a_gateway_that_began_minutes_ago_is_forecast_by_those_minutes(store: SqlStore) -> None:
    """And not by the part of the month that is over: it would be right at the end of the month."""
    for number in range(8):
        spent(store, f"r{number}", 0.15, number * 60)

    (one,) = budget_report((budget(50),), store, NOW).budgets

    assert one.rate_per_hour == pytest.approx(1.2 / (420 / HOUR))
    assert one.used_up_at is not None
    assert NOW + 4 * HOUR < one.used_up_at < NOW + 6 * HOUR
    assert one.forecast is not None
    assert one.forecast > 100
    assert one.resets is not None
    assert one.used_up_at < one.resets


def test_a_steady_month_and_one_that_grows_differ(store: SqlStore) -> None:
    for day in range(30):
        spent(store, f"d{day}", 1.0, day * DAY + HOUR)
    (steady,) = budget_report((budget(100),), store, NOW).budgets
    for day in range(7):
        spent(store, f"more{day}", 9.0, day * DAY + 2 * HOUR)
    (grown,) = budget_report((budget(100),), store, NOW).budgets

    assert steady.forecast == pytest.approx(31, abs=2)
    assert steady.used_up_at is None
    assert grown.used_up_at is not None
    assert grown.rate_per_hour == pytest.approx(10 * steady.rate_per_hour, rel=0.05)


def test_a_total_has_no_forecast_and_still_an_end(store: SqlStore) -> None:
    spent(store, "r", 7.0, 7 * DAY - 900)

    (one,) = budget_report((budget(14, "total"),), store, NOW).budgets

    assert one.forecast is None
    assert one.used_up_at == pytest.approx(NOW + 7 * DAY, rel=1e-3)


def test_without_spend_there_is_nothing_to_forecast(store: SqlStore) -> None:
    (one,) = budget_report((budget(14, "day"),), store, NOW).budgets

    assert (one.rate_per_hour, one.forecast, one.used_up_at) == (0, 0, None)


@given(
    st.integers(0, 10**12),
    st.integers(1, 10**12),
    st.floats(0, 1e6),
    st.floats(0, 0.999),
    st.sampled_from(["day", "week", "month"]),
)
def test_a_budget_is_used_up_in_its_period_exactly_if_the_forecast_reaches_it(
    used: int, limit: int, rate: float, part: float, per: Per
) -> None:
    period = period_of(per, "UTC", NOW)
    at = period.begin + part * (period.end - period.begin)

    foreseen, when = forecast(period, used, rate, at), used_up_at(period, used, limit, rate, at)

    assert foreseen is not None
    assert foreseen >= used
    if when is None:
        assert foreseen <= limit + 1
    else:
        assert at <= when < period.end
        assert foreseen >= limit - 1


@given(st.sampled_from(["day", "week", "month", "total"]), st.integers(0, 40 * 96))
def test_a_rate_is_of_whole_slots_of_the_recent_past_and_never_of_an_instant(
    per: Per, slots_ago: int
) -> None:
    first = NOW - slots_ago * 900

    window = recent(per, NOW, first)

    assert window is not None
    assert first - 900 < window.begin <= NOW < window.end
    assert window.begin % 900 == window.end % 900 == 0
    assert rate_in(window, 300, first, NOW) <= 1
    assert recent(per, NOW, None) is None


def test_a_period_without_an_end_has_no_forecast() -> None:
    assert forecast(TOTAL, 1, 1.0, NOW) is None
    assert used_up_at(Period(0, 900), 5, 5, 0.0, 30.0) == 30.0
