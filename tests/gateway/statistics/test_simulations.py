"""The promises of experiments: thousands of simulations, checked at every look.

Users' requests are correlated (each has its own rate) and their numbers Pareto-distributed. For
each promise the usual analysis of the same crowds is computed, too, to show that the test can fail.
All are seeded; docs/experiments-statistics.md has the table, whose numbers of experiments run in
`make nightly-statistics`, and 40 in 100 of them in `make test`.
"""

from itertools import pairwise
from math import inf, log1p, sqrt

import numpy as np
import pytest
from msgspec.structs import replace

from strowger_gateway.gateway.statistics.assignment import Assignment, WeightedArm
from strowger_gateway.gateway.statistics.effects import (
    Effect,
    Look,
    effect,
    lower_bound,
)
from strowger_gateway.gateway.statistics.metrics import BUILT_IN
from strowger_gateway.gateway.statistics.outcomes import Outcomes
from strowger_gateway.gateway.statistics.sample_size import plan, unit_sd
from strowger_gateway.gateway.statistics.verdict import HARM_ALPHA
from tests.gateway.statistics.crowd import (
    NAMES,
    Arms,
    Floats,
    Visit,
    as_units_arrive,
    outcomes_of,
    pareto_counts,
    yes_votes,
)

RATE = (0.0, 1.0)


@pytest.fixture(params=[0.4, pytest.param(1.0, marks=pytest.mark.nightly)], ids=["some", "all"])
def part(request: pytest.FixtureRequest) -> float:
    """The share of the experiments that are simulated."""
    return request.param


def found_in(outcomes: Outcomes, look: Look, bounds: tuple[float, float] | None = RATE) -> Effect:
    return effect(outcomes, control="control", treatment="treatment", look=look, bounds=bounds)


def apart(found: Effect) -> bool:
    return found.low > 0 or found.high < 0


def per_request(outcomes: Outcomes) -> bool:
    """The usual mistake: a z-test at 5 % that takes every request for independent."""
    one, other = (next(cell for cell in outcomes.cells if cell.variant == name) for name in NAMES)
    variance = sum(cell.mean * (1 - cell.mean) / cell.count for cell in (one, other))
    return abs(other.mean - one.mean) > 1.96 * sqrt(variance)


def arrivals(
    rng: np.random.Generator, units: int, *, share: float, shape: float, lift: float = 0.0
) -> tuple[Arms, Floats, Floats]:
    """Users in the order they come, all requests of each; 12 in 100 answers liked, plus `lift`."""
    treated = rng.random(units) < share
    counts = pareto_counts(rng, units, shape)
    return treated, counts, yes_votes(rng, counts, 0.12 + lift * treated, 1 / 3)


@pytest.mark.parametrize(("shape", "share"), [(1.5, 0.5), (3.0, 0.1)])
def test_aa_experiments_peeked_at_every_100_units_reject_at_most_the_nominal_5_percent(
    shape: float, share: float, part: float
) -> None:
    rng = np.random.default_rng(11)
    looks = np.arange(100, 3_001, 100)
    look = Look(planned=3_000 * share * (1 - share))
    rejected = naively = 0
    runs = int((1_000 if share == 0.5 else 300) * part)
    for _ in range(runs):
        arriving = as_units_arrive(*arrivals(rng, 3_000, share=share, shape=shape), looks)
        rejected += any(apart(found_in(outcomes, look)) for outcomes in arriving)
        naively += any(map(per_request, arriving))

    assert rejected / runs <= 0.05
    assert naively / runs > 0.4


def test_heavy_tailed_latencies_reject_no_more_often(part: float) -> None:
    """Geometric means of log-normal times with an outage now and then, Pareto numbers of them."""
    runs = int(300 * part)
    rng = np.random.default_rng(12)
    metric = BUILT_IN["latency_ms"]
    looks = np.arange(100, 2_001, 100)
    rejected = 0
    for _ in range(runs):
        counts = pareto_counts(rng, 2_000, 1.5)
        own = rng.normal(6, 0.5, 2_000) + (rng.random(2_000) < 0.01) * 4
        totals = counts * own + rng.normal(0, 0.8, 2_000) * np.sqrt(counts)
        arriving = as_units_arrive(rng.random(2_000) < 0.5, counts, totals, looks)
        look = Look(planned=500)
        rejected += any(apart(found_in(outcomes, look, metric.bounds)) for outcomes in arriving)

    assert rejected / runs <= 0.05


def test_costs_with_giants_and_a_small_arm_reject_no_more_often(part: float) -> None:
    """A tenth of the users in treatment, and bills of which one in a thousand is 500 medians."""
    runs = int(200 * part)
    rng = np.random.default_rng(18)
    looks = np.arange(100, 2_001, 100)
    rejected = without = 0
    for _ in range(runs):
        costs = rng.lognormal(0, 2, 2_000)
        arriving = as_units_arrive(rng.random(2_000) < 0.1, np.ones(2_000), costs, looks)
        rejected += any(apart(found_in(outcomes, Look(planned=180), None)) for outcomes in arriving)
        blind = [
            Outcomes(cells=tuple(replace(cell, least=None, most=None) for cell in outcomes.cells))
            for outcomes in arriving
        ]
        without += any(apart(found_in(outcomes, Look(planned=180), None)) for outcomes in blind)

    assert rejected / runs <= 0.05
    assert without / runs > 0.06


def test_a_true_lift_is_found_within_the_planned_sample_in_four_of_five_experiments(
    part: float,
) -> None:
    runs = int(300 * part)
    rng = np.random.default_rng(13)
    counts = pareto_counts(rng, 200_000, 2.5)
    requests, spread = float(counts.mean()), float(counts.std() / counts.mean())
    deviation = unit_sd(sqrt(0.12 * 0.88), requests=requests, spread=spread, correlation=1 / 3)
    planned = plan(baseline=0.12, lift=0.05, sd=deviation)
    looks = np.append(np.arange(100, planned.total, 100), planned.total)
    look = Look(planned=planned.pairs)
    found: list[float] = []
    for _ in range(runs):
        crowd = arrivals(rng, planned.total, share=0.5, shape=2.5, lift=0.05)
        effects = [found_in(outcomes, look) for outcomes in as_units_arrive(*crowd, looks)]
        found.append(next((n for n, seen in zip(looks, effects, strict=True) if seen.low > 0), inf))

    assert sum(n < inf for n in found) / runs >= 0.8
    assert np.median(found) < 0.75 * planned.total


def ramp(
    rng: np.random.Generator, shares: tuple[float, ...], rates: tuple[float, ...], *, looks: int
) -> list[list[Visit]]:
    """The same users in every epoch, their requests coming in bit by bit, seen at every look.

    A growing share moves users only into treatment. rates: of everyone, by epoch.
    """
    users = 1_000
    place, heavy = rng.random(users), rng.pareto(1.5, users) + 1
    taste = rng.beta(0.8, 3.2, users) / 0.2
    seen: list[list[Visit]] = []
    done: list[Visit] = []
    for epoch, (share, rate) in enumerate(zip(shares, rates, strict=True), start=1):
        here = heavy / looks * (rng.random(users) < 0.6)
        visit = Visit(
            epoch=epoch, treated=place < share, count=np.zeros(users), total=np.zeros(users)
        )
        for _ in range(looks):
            more = rng.poisson(here)
            yes = rng.binomial(more, np.clip(taste * rate, 0, 1))
            visit = Visit(
                epoch=epoch,
                treated=visit.treated,
                count=visit.count + more,
                total=visit.total + yes,
            )
            seen.append([*done, visit])
        done.append(visit)
    return seen


def test_a_ramp_from_10_to_20_to_50_percent_with_a_drifting_base_rate_shows_no_effect(
    part: float,
) -> None:
    runs = int(200 * part)
    rng = np.random.default_rng(14)
    look = Look(planned=500)
    rejected = pooled = 0
    for _ in range(runs):
        views = [
            outcomes_of(visits) for visits in ramp(rng, (0.1, 0.2, 0.5), (0.1, 0.2, 0.3), looks=5)
        ]
        rejected += any(apart(found_in(outcomes, look)) for outcomes in views)
        means = [
            sum(cell.total for cell in views[-1].cells if cell.variant == name)
            / sum(cell.count for cell in views[-1].cells if cell.variant == name)
            for name in NAMES
        ]
        pooled += means[1] > means[0]

    assert rejected / runs <= 0.05
    assert pooled / runs > 0.9


def test_users_who_stay_for_many_epochs_make_no_effect_either(part: float) -> None:
    runs = int(100 * part)
    rng = np.random.default_rng(15)
    look = Look(planned=1_000)
    rejected = blindly = 0
    for _ in range(runs):
        views = [outcomes_of(visits) for visits in ramp(rng, (0.5,) * 10, (0.2,) * 10, looks=1)]
        rejected += any(apart(found_in(view, look)) for view in views)
        blindly += any(apart(found_in(Outcomes(cells=view.cells), look)) for view in views)

    assert rejected / runs <= 0.05
    assert blindly / runs > 0.05


def test_the_interval_covers_a_known_effect_at_every_look(part: float) -> None:
    """Latencies 8 % longer in treatment, on the log scale, in one experiment in five hundred."""
    runs = int(200 * part)
    rng = np.random.default_rng(16)
    looks = np.arange(100, 2_001, 100)
    true = log1p(0.08)
    missed = 0
    for _ in range(runs):
        treated = rng.random(2_000) < 0.3
        counts = pareto_counts(rng, 2_000, 2.5)
        totals = counts * (rng.normal(6, 0.4, 2_000) + true * treated)
        arriving = as_units_arrive(treated, counts, totals, looks)
        effects = [found_in(outcomes, Look(planned=420), None) for outcomes in arriving]
        missed += any(not seen.low <= true <= seen.high for seen in effects)

    assert missed / runs <= 0.05


@pytest.mark.parametrize(
    ("harm", "seldom", "soon"), [(0.0, 0.01, 0.0), (0.02, 0.01, 0.0), (0.2, 1.0, 0.99)]
)
def test_a_harm_limit_watched_continuously_stops_harm_and_nothing_else(
    harm: float, seldom: float, soon: float, part: float
) -> None:
    """Errors 3 % in control; 2 points more are allowed. At most 1 % of such variants is paused."""
    runs = int(300 * part)
    rng = np.random.default_rng(17)
    looks = np.arange(50, 1_001, 50)
    harm_limit = Look(alpha=HARM_ALPHA, planned=250)
    paused = 0
    for _ in range(runs):
        treated = rng.random(1_000) < 0.5
        counts = pareto_counts(rng, 1_000, 2.5)
        failed = yes_votes(rng, counts, 0.03 + harm * treated, 0.2)
        paused += any(
            lower_bound(found_in(outcomes, harm_limit), harm_limit, sign=1) > 0.02
            for outcomes in as_units_arrive(treated, counts, failed, looks)
        )

    assert soon <= paused / runs <= seldom


def test_a_ramp_moves_no_unit_back() -> None:
    steps = [
        Assignment(
            "ramp",
            [WeightedArm(name="control", weight=100 - w), WeightedArm(name="treatment", weight=w)],
        )
        for w in (10, 20, 50)
    ]
    units = [f"user-{number}" for number in range(4_000)]

    paths = [[step.variant(unit) for step in steps] for unit in units]

    moves = {move for path in paths for move in pairwise(path)}
    assert moves == {
        ("control", "control"),
        ("control", "treatment"),
        ("treatment", "treatment"),
    }
