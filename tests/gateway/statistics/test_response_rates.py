"""Missing votes: variants whose answers are voted on at different rates."""

import os
from math import inf, sqrt

import numpy as np
import pytest

from strowger_gateway.gateway.statistics.effects import Look
from strowger_gateway.gateway.statistics.outcomes import Outcomes, UnitRow, summarised
from strowger_gateway.gateway.statistics.response_rates import ALPHA, compared
from tests.gateway.statistics.crowd import NAMES, as_units_arrive, pareto_counts
from tests.gateway.statistics.fleet import arriving, band

TRIALS = int(os.environ.get("STROWGER_TRIALS", "1000"))
PLANNED = 1_250.0


def voters(rng: np.random.Generator, units: int, dissatisfied: float) -> Outcomes:
    """One request a unit; 30 % are satisfied in both arms, and a fifth of those vote. Of the others
    a tenth does in control, and `dissatisfied` in treatment: 13 and 10.9 % vote in all.
    """
    treated = rng.random(units) < 0.5
    content = rng.random(units) < 0.3
    rates = np.where(content, 0.2, np.where(treated, dissatisfied, 0.1))
    voted = (rng.random(units) < rates).astype(np.float64)
    return as_units_arrive(treated, np.ones(units), voted, np.array([units]))[0]


def test_dissatisfied_users_who_vote_less_often_are_noticed() -> None:
    rng = np.random.default_rng(41)
    outcomes = {"thumbs_up": voters(rng, 20_000, 0.07)}

    (found,) = compared(outcomes, control=NAMES[0], treatments=NAMES[1:], planned=PLANNED)

    assert found.differ
    assert found.rate is not None
    assert found.control is not None
    assert found.rate < found.control
    assert found.sentence.startswith(
        "RESPONSE RATES DIFFER: answers of treatment get thumbs_up less often than those of control"
    )
    assert f"{found.found.difference:.3g}".replace("-", "−") in found.sentence


def test_equal_rates_are_not() -> None:
    rng = np.random.default_rng(42)

    (found,) = compared(
        {"thumbs_up": voters(rng, 20_000, 0.1)},
        control=NAMES[0],
        treatments=NAMES[1:],
        planned=PLANNED,
    )

    assert not found.differ
    assert found.found.known


def test_without_requests_there_is_no_statement() -> None:
    (found,) = compared({"stars": Outcomes()}, control="a", treatments=("b",), planned=PLANNED)

    assert (found.rate, found.control, found.sentence) == (None, None, "")


def test_treatments_share_the_level() -> None:
    rows = [
        UnitRow(unit=f"{arm}{n}", epoch=1, variant=arm, count=1, total=float(n % 5 == 0))
        for arm in "abc"
        for n in range(500)
    ]
    outcomes = {"m": summarised(rows)}

    alone = compared(outcomes, control="a", treatments=("b",), planned=PLANNED)[0].found
    both = compared(outcomes, control="a", treatments=("b", "c"), planned=PLANNED)[0].found

    assert both.high > alone.high


@pytest.mark.nightly
@pytest.mark.parametrize("share", [0.5, 0.1])
@pytest.mark.parametrize(("rate", "shape"), [(0.02, inf), (0.13, inf), (0.13, 1.5)])
def test_equal_response_rates_are_reported_as_different_at_most_once_in_a_hundred(
    share: float, rate: float, shape: float
) -> None:
    rng = np.random.default_rng(43)
    looks = np.arange(10, 20_001, 10)
    look = Look(alpha=ALPHA, planned=PLANNED)
    wrong = 0
    for _ in range(TRIALS):
        treated = rng.random(20_000) < share
        counts = np.ones(20_000) if shape == inf else pareto_counts(rng, 20_000, shape)
        own = np.full(20_000, rate) if shape == inf else rng.beta(rate * 2, (1 - rate) * 2, 20_000)
        voted = rng.binomial(counts.astype(np.int64), own).astype(np.float64)
        found = band(arriving(treated, counts, voted, looks), look, (0.0, 1.0))
        wrong += bool(((found.low > 0) | (found.high < 0)).any())

    print(f"\nresponse rate {rate:g}, {100 * share:g} %, shape {shape:g}: {100 * wrong / TRIALS} %")
    assert wrong / TRIALS <= ALPHA + 3 * sqrt(ALPHA / TRIALS)
