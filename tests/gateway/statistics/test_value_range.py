"""A range that is declared too wide costs no more than a quarter of an interval's width."""

import os
from math import sqrt

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from strowger_gateway.gateway.statistics.effects import Look, effect
from strowger_gateway.gateway.statistics.outcomes import Outcomes, UnitRow, summarised
from strowger_gateway.gateway.statistics.value_range import (
    FARTHER,
    MOST_OF_WIDTH,
    round_up,
    used_range,
)
from tests.gateway.statistics.fleet import Band, Bools, Floats, Ints, arriving, band

TRIALS = int(os.environ.get("STROWGER_TRIALS", "1000"))


@given(value=st.floats(1e-9, 1e15))
def test_limits_are_round_numbers(value: float) -> None:
    found = round_up(value)

    assert value * (1 - 1e-12) <= found <= 2.5 * value * (1 + 1e-9)
    assert f"{found:.6e}"[:2].rstrip(".") in {"1", "2", "5"}


def crowd(units: int, *, seed: int = 1) -> Outcomes:
    """Values from 0 to 8 with the mean 3 and the deviation 1.7."""
    rng = np.random.default_rng(seed)
    values = np.clip(rng.normal(3, 1.7, units), 0, 8)
    return summarised(
        UnitRow(unit=str(n), epoch=1, variant="ct"[n % 2], count=1, total=float(value))
        for n, value in enumerate(values)
    )


@pytest.mark.parametrize("top", [10, 100, 1_000, 10_000, 1e9])
@pytest.mark.parametrize("units", [200, 2_000])
def test_a_range_costs_a_quarter_of_the_width_at_most(top: float, units: int) -> None:
    outcomes, look = crowd(units), Look()

    used = used_range(
        outcomes, control="c", treatments="t", look=look, declared=(0, top), seen=(0, 8)
    )

    bounds = (0.0, top) if used is None else used.bounds
    alone, found, declared = (
        effect(outcomes, control="c", treatment="t", look=look, bounds=ends).error
        for ends in (None, bounds, (0, top))
    )
    assert found <= declared
    if used is not None:
        assert used.cost == pytest.approx(1 - alone / declared)
        assert used.limited == (used.cost > MOST_OF_WIDTH)
        assert used.bounds == ((0, 20) if used.limited else (0, top))
    if units == 2_000:
        assert alone >= found * (1 - MOST_OF_WIDTH)


def test_values_below_zero_have_a_limit_as_well() -> None:
    used = used_range(
        crowd(2_000), control="c", treatments="t", look=Look(), declared=(-1e6, 1e6), seen=(-11, 8)
    )

    assert used is not None
    assert used.bounds == (-50, 50)


def test_without_an_interval_or_a_value_the_range_stays() -> None:
    few = used_range(
        crowd(20), control="c", treatments="t", look=Look(), declared=(0, 1e6), seen=(0, 8)
    )
    zero = used_range(
        crowd(2_000), control="c", treatments="t", look=Look(), declared=(0, 1e6), seen=(0, 0)
    )

    assert few is None
    assert zero is None


def limited_band(
    treated: Bools, values: Floats, looks: Ints, look: Look, top: float
) -> tuple[Band, Band]:
    """The intervals with the range that is used, and with the declared one, 0 to `top`."""
    moments = arriving(treated, np.ones(len(values)), values, looks)
    farthest = np.maximum.accumulate(values)[looks - 1]
    limit = np.array([round_up(FARTHER * one) if one else top for one in farthest.tolist()])
    alone, declared = band(moments, look, None), band(moments, look, (0.0, top))
    limited = band(moments, look, (0.0, np.minimum(limit, top)))
    with np.errstate(invalid="ignore"):
        over = 1 - alone.error / declared.error > MOST_OF_WIDTH
    return (
        Band(
            difference=declared.difference,
            low=np.where(over, limited.low, declared.low),
            high=np.where(over, limited.high, declared.high),
            error=np.where(over, limited.error, declared.error),
        ),
        declared,
    )


def missed(
    *, share: float, rare: float, huge: float, runs: int, units: int, every: int, planned: int
) -> float:
    """The part of A/A experiments that ever find a difference: values of 0 to 8, and rarely one
    that is huge."""
    rng = np.random.default_rng(21)
    looks = np.arange(10, units + 1, every)
    found = 0
    for _ in range(runs):
        treated = rng.random(units) < share
        values = np.clip(rng.normal(3, 1.7, units), 0, 8)
        values = np.where(rng.random(units) < rare, huge, values)
        used, _ = limited_band(treated, values, looks, Look(planned=planned / 8), 10_000.0)
        found += bool(((used.low > 0) | (used.high < 0)).any())
    return found / runs


def test_rare_huge_values_make_no_effect() -> None:
    found = missed(
        share=0.1, rare=0.001, huge=1_000.0, runs=60, units=5_000, every=50, planned=1_500
    )

    assert found <= 0.05


@pytest.mark.nightly
@pytest.mark.parametrize("share", [0.5, 0.1, 0.02])
@pytest.mark.parametrize(
    ("rare", "huge"), [(0.01, 100.0), (0.001, 1_000.0), (0.0003, 9_000.0), (0.0001, 1_000.0)]
)
@pytest.mark.parametrize("planned", [1_500, 10_000])
def test_rare_huge_values_hold_the_level(
    share: float, rare: float, huge: float, planned: int
) -> None:
    found = missed(
        share=share, rare=rare, huge=huge, runs=TRIALS, units=20_000, every=10, planned=planned
    )

    print(
        f"\n{100 * rare:g} % of values are {huge:g}, {100 * share:g} %, planned {planned:,}: "
        f"{100 * found:.1f} %"
    )
    assert found <= 0.05 + 3 * sqrt(0.05 * 0.95 / TRIALS)


@pytest.mark.nightly
@pytest.mark.parametrize("arm", [1_000, 10_000, 100_000])
def test_the_width_by_range(arm: int) -> None:
    """Values of mean 3 and deviation 1.7 in two equal arms."""
    rng = np.random.default_rng(22)
    units = 2 * arm
    treated, looks = np.arange(units) % 2 == 0, np.array([units])
    values = np.clip(rng.normal(3, 1.7, units), 0, 8)
    for top in (10.0, 50.0, 100.0, 1_000.0, 10_000.0):
        used, declared = limited_band(treated, values, looks, Look(), top)
        before, after = (float((one.high - one.low)[0] / 2) for one in (declared, used))
        print(f"\n{arm:,} an arm, 0 to {top:g}: {before:.3g} declared, {after:.3g} used")
        assert after <= before
