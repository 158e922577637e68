"""The interval by betting: its level and coverage at every look, its width, and its invariants.

Simulated from docs/experiments-statistics.md and not from the code, so that each checks the other.
`make nightly-statistics` prints the table with STROWGER_TRIALS runs a cell.
"""

import os
from collections import Counter
from collections.abc import Callable
from math import exp, log, sqrt

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st

from strowger_gateway.gateway.statistics.betting import betting_interval, capital

TRIALS = int(os.environ.get("STROWGER_TRIALS", "1000"))
UNITS = 1_000
Floats = npt.NDArray[np.float64]
Scores = Callable[[np.random.Generator, int], Floats]
"""From a generator and a number of units: the value of each."""


def verdicts(win: float, tie: float) -> Scores:
    """One pair per unit, judged in one order."""
    losing = 1 - win - tie

    def draw(rng: np.random.Generator, units: int) -> Floats:
        return rng.choice(np.array([0.0, 0.5, 1.0]), units, p=[losing, tie, win])

    return draw


def busy_units(rate: float) -> Scores:
    """Units with Pareto-distributed numbers of pairs, each with a win rate of its own."""

    def draw(rng: np.random.Generator, units: int) -> Floats:
        pairs = np.minimum(np.floor(rng.pareto(1.5, units) + 1), 200).astype(np.int64)
        own = rng.beta(2 * rate, 2 * (1 - rate), units)
        return rng.binomial(pairs, own) / pairs

    return draw


CELLS: dict[str, tuple[Scores, float]] = {
    "no ties, 0.5": (verdicts(0.5, 0.0), 0.5),
    "40 % ties, 0.5": (verdicts(0.3, 0.4), 0.5),
    "90 % ties, 0.5": (verdicts(0.05, 0.9), 0.5),
    "busy units, 0.5": (busy_units(0.5), 0.5),
    "no ties, 0.6": (verdicts(0.6, 0.0), 0.6),
    "20 % ties, 0.6": (verdicts(0.5, 0.2), 0.6),
    "busy units, 0.6": (busy_units(0.6), 0.6),
    "no ties, 0.95": (verdicts(0.95, 0.0), 0.95),
    "always a tie": (verdicts(0.0, 1.0), 0.5),
}


def capitals(values: Floats, m: float) -> Floats:
    """The logarithm of the capital against m after each value, [runs, units]."""
    steps = np.arange(1, 11)
    weights = np.exp(-((steps - 3.0) ** 2) / 8)
    weights /= 2 * weights.sum()
    total = np.full_like(values, -np.inf)
    for step, weight in zip(steps, weights, strict=True):
        for bet in (2.0**-step / m, -(2.0**-step) / (1 - m)):
            won = np.cumsum(np.log1p(bet * (values - m)), axis=1)
            total = np.logaddexp(total, log(weight) + won)
    return total


def runs(cell: str, trials: int) -> tuple[Floats, float]:
    draw, truth = CELLS[cell]
    rng = np.random.default_rng(list(CELLS).index(cell))
    return np.stack([draw(rng, UNITS) for _ in range(trials)]), truth


def at_most(level: float, trials: int) -> float:
    """What a rate of `level` exceeds in one of a thousand simulations."""
    return level + 3.1 * sqrt(level * (1 - level) / trials)


def missed(cell: str, trials: int) -> float:
    """The share of runs whose interval misses the truth at any look, one after every unit."""
    values, truth = runs(cell, trials)
    return float((capitals(values, truth).max(axis=1) >= log(20)).mean())


@pytest.mark.parametrize("cell", CELLS)
def test_an_interval_that_is_looked_at_after_every_unit_misses_in_one_of_twenty_at_most(
    cell: str,
) -> None:
    assert missed(cell, 100) <= at_most(0.05, 100)


@pytest.mark.nightly
@pytest.mark.parametrize("cell", CELLS)
def test_every_cell_holds_its_level(cell: str) -> None:
    values, truth = runs(cell, TRIALS)
    rate = float((capitals(values, truth).max(axis=1) >= log(20)).mean())
    apart = capitals(values, 0.5) >= log(20) if truth != 0.5 else None
    print(f"\nwin rate, {cell}: missed {100 * rate:.1f} %")
    if apart is not None:
        half = int(np.median(np.where(apart.any(axis=1), apart.argmax(axis=1), UNITS))) + 1
        print(f"shown to differ from 0.5: {100 * apart.any(1).mean():.0f} %, half by {half} units")

    assert rate <= at_most(0.05, TRIALS)


def test_the_arrays_and_the_gateway_compute_the_same() -> None:
    values, _ = runs("20 % ties, 0.6", 3)
    for row in values:
        for units in (1, 10, 400, 1_000):
            for m in (0.01, 0.5, 0.62, 0.99):
                expected = capitals(row[None, :units], m)[0, -1]
                assert capital(Counter(row[:units].tolist()), m) == pytest.approx(expected)


def test_the_interval_ends_where_the_capital_reaches_the_level() -> None:
    values = ([1.0] * 30 + [0.0] * 15 + [0.5] * 5) * 4
    found = betting_interval(values, alpha=0.05)

    for end in (found.low, found.high):
        assert capital(Counter(values), end) == pytest.approx(log(20), abs=1e-6)
    assert found.low < found.mean < found.high


def test_five_hundred_pairs_tell_sixty_percent_from_half_in_most_cases() -> None:
    """The interval is at most a quarter wider than the asymptotic one for the same looks."""
    values, _ = runs("no ties, 0.6", 200)
    apart = capitals(values[:, :500], 0.5)[:, -1] >= log(20)
    found = betting_interval(([1.0] * 6 + [0.0] * 4) * 50)

    assert apart.mean() > 0.8
    assert (found.high - found.low) / 2 < 1.25 * 3.06 * sqrt(0.24 / 500)


@given(st.lists(st.sampled_from([0.0, 0.25, 0.5, 0.75, 1.0]), min_size=1, max_size=80))
def test_order_and_direction_change_nothing(values: list[float]) -> None:
    shuffled = sorted(values)
    mirrored = [1 - value for value in values]
    one, same, other = map(betting_interval, (values, shuffled, mirrored))

    assert (same.low, same.high) == pytest.approx((one.low, one.high), abs=1e-9)
    assert (1 - other.high, 1 - other.low) == pytest.approx((one.low, one.high), abs=1e-9)
    assert 0 <= one.low <= one.mean <= one.high <= 1


@given(st.lists(st.floats(0, 1), min_size=1, max_size=60), st.sampled_from([0.01, 0.05, 0.2]))
def test_p_is_below_alpha_when_the_interval_excludes_a_half(
    values: list[float], alpha: float
) -> None:
    found = betting_interval(values, alpha=alpha)
    if abs(log(max(found.p, exp(-700))) - log(alpha)) > 1e-6:
        assert (found.p < alpha) == (found.low > 0.5 or found.high < 0.5)


def test_no_values_know_nothing() -> None:
    found = betting_interval([])

    assert (found.low, found.high, found.p, found.known) == (0.0, 1.0, 1.0, False)
