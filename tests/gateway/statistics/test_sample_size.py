"""Planned samples compared with textbook numbers and with the project's own intervals."""

from math import inf, sqrt
from statistics import NormalDist

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strowger_gateway.gateway.statistics.confidence_sequence import tuned, two_sided
from strowger_gateway.gateway.statistics.effects import Effect, Look
from strowger_gateway.gateway.statistics.sample_size import (
    plan,
    radius,
    unit_sd,
    units_to_go,
)


def test_the_fixed_sample_is_the_textbook_formula() -> None:
    """(1.959964 + 0.841621)² (0.12 · 0.88 + 0.14 · 0.86) / 0.02² a variant."""
    found = plan(baseline=0.12, lift=0.02)

    assert found.fixed == (4_435, 4_435)


def test_looking_all_the_time_costs_somewhat_under_twice_the_units() -> None:
    found = plan(baseline=0.12, lift=0.02)

    assert found.units == (8_492, 8_492)
    assert 1.8 < found.total / found.fixed_total < 2.0


def test_a_relative_lift_is_a_part_of_the_baseline() -> None:
    assert plan(baseline=0.12, lift=0.1, relative=True) == plan(baseline=0.12, lift=0.012)


def test_uneven_shares_need_more_units_in_all() -> None:
    even, uneven = plan(baseline=0.2, lift=0.05), plan(baseline=0.2, lift=0.05, shares=(9, 1))

    assert uneven.total > 2 * even.total
    assert uneven.units[0] == pytest.approx(9 * uneven.units[1], abs=9)


def test_more_treatments_share_alpha() -> None:
    two = plan(baseline=0.2, lift=0.05, shares=(1, 1))
    four = plan(baseline=0.2, lift=0.05, shares=(1, 1, 1, 1))

    assert four.alpha == pytest.approx(0.05 / 3)
    assert four.units[0] > two.units[0]


@given(
    lift=st.floats(0.01, 0.3),
    alpha=st.floats(0.001, 0.2),
    power=st.floats(0.5, 0.99),
    share=st.floats(0.05, 0.95),
)
def test_the_planned_sample_is_where_radius_and_luck_just_fit_into_the_lift(
    lift: float, alpha: float, power: float, share: float
) -> None:
    found = plan(
        baseline=0.3, lift=lift, alpha=alpha, power=power, shares=(1 - share, share), sd=0.4
    )
    error = 0.4 * sqrt(1 / found.units[0] + 1 / found.units[1])
    step = error * sqrt(found.pairs)

    wide = two_sided(found.pairs, tuned(found.pairs, alpha), alpha) * step / found.pairs

    # Whole units are rounded up, which shows where there are few.
    reached = NormalDist().inv_cdf(power)
    assert wide + reached * error == pytest.approx(lift, rel=1 / min(found.units) + 1e-9)


def test_the_radius_is_three_standard_errors_for_five_in_a_hundred() -> None:
    assert radius(0.05) == pytest.approx(3.0352, abs=1e-4)


def test_requests_of_one_unit_count_for_less_the_more_they_are_alike() -> None:
    apart = unit_sd(0.5, requests=10, spread=0, correlation=0)
    alike = unit_sd(0.5, requests=10, spread=0, correlation=1)

    assert apart == pytest.approx(0.5 / sqrt(10))
    assert alike == pytest.approx(0.5)
    assert unit_sd(0.5, requests=10, spread=2, correlation=0.3) > alike


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        ({"baseline": 0.95, "lift": 0.1}, "lift: a rate of 1.05"),
        ({"baseline": 300, "lift": 10}, "baseline: a rate of 300 .* give sd"),
        ({"lift": 0}, "lift: no sample can find"),
        ({"alpha": 0}, "alpha: 0"),
        ({"power": 0.3}, "power: 0.3"),
        ({"shares": (1,)}, "shares"),
        ({"shares": (1, 0)}, "shares"),
        ({"sd": 0}, "sd: 0"),
        ({"sd": float("inf")}, "sd: inf"),
        ({"lift": float("nan")}, "lift: a difference of nan"),
        ({"lift": 1e-300}, "lift: the sample that detects"),
        ({"shares": (float("inf"), 1)}, "shares"),
        ({"shares": (1, 1e-300)}, "shares: the smallest"),
    ],
)
def test_what_cannot_be_planned_is_refused_by_name(
    wrong: dict[str, float | tuple[float, ...]], says: str
) -> None:
    arguments = {"baseline": 0.12, "lift": 0.02} | wrong

    with pytest.raises(ValueError, match=says):
        plan(**arguments)  # pyright: ignore[reportArgumentType]


def running(*, difference: float, error: float, pairs: float) -> Effect:
    """One observation a unit, in even arms."""
    return Effect(
        difference=difference,
        low=-1,
        high=1,
        error=error,
        units=int(4 * pairs),
        pairs=pairs,
        time=pairs,
    )


def test_half_way_there_the_other_half_is_missing() -> None:
    planned = plan(baseline=0.12, lift=0.02)
    half = planned.pairs / 2
    spread = sqrt(0.12 * 0.88 / planned.units[0] + 0.14 * 0.86 / planned.units[1])
    look = Look(planned=planned.pairs)

    more = units_to_go(
        running(difference=0.005, error=spread * sqrt(2), pairs=half), look, smallest=0.02
    )

    assert more == pytest.approx(planned.total / 2, rel=0.001)


def test_past_the_plan_the_estimate_says_how_far_it_is() -> None:
    look = Look(planned=1_000)
    found = running(difference=0.03, error=0.01, pairs=2_000)

    more = units_to_go(found, look, smallest=None)

    step = 0.01 * sqrt(2_000)
    then = 2_000 + more / 4
    assert two_sided(then, tuned(1_000, 0.05), 0.05) / then * step == pytest.approx(0.03)


def test_past_the_plan_the_nearer_verdict_counts() -> None:
    """An estimate near 0 is soon told from `smallest`, one near `smallest` soon from 0."""
    look = Look(planned=1_000)

    def more(difference: float) -> float:
        found = running(difference=difference, error=0.01, pairs=20_000)
        return units_to_go(found, look, smallest=0.05)

    assert more(0.001) == more(0.049) == pytest.approx(0)
    assert more(0.025) > 0
    assert more(0.02) == pytest.approx(more(0.03))


def test_no_end_is_in_sight_without_a_difference_or_a_least_one() -> None:
    look = Look(planned=1_000)

    assert units_to_go(running(difference=0, error=0.01, pairs=500), look, smallest=None) == inf
    assert units_to_go(Effect(), look, smallest=0.1) == inf
