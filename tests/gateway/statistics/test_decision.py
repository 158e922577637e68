"""A treatment is only shipped if every clause holds, however often the decision is checked.

The simulations look at the experiment after every 10 units; the tables run in
`make nightly-statistics`, with STROWGER_TRIALS decisions for each cell.
"""

import os
from math import exp, inf, log, sqrt

import numpy as np
import pytest
from msgspec import Struct

from strowger_gateway.gateway.statistics.decision import Clause, decided
from strowger_gateway.gateway.statistics.effects import Look, effect, lower_bound
from strowger_gateway.gateway.statistics.metrics import BUILT_IN, Metric
from strowger_gateway.gateway.statistics.outcomes import Outcomes, UnitRow, summarised
from strowger_gateway.gateway.statistics.sample_size import plan_clause
from strowger_gateway.gateway.statistics.verdict import ReportInput, verdict_of
from tests.gateway.statistics.fleet import Bools, Floats, arriving, band

TRIALS = int(os.environ.get("STROWGER_TRIALS", "1000"))
THUMBS = Metric(name="thumbs_up", bounds=(0.0, 1.0))
ERROR = BUILT_IN["error"]
COST = BUILT_IN["cost_usd"]
CLAUSES = (Clause(metric=COST), Clause(metric=THUMBS, by=0.02), Clause(metric=ERROR, by=0.005))
ALPHA = 0.05


class World(Struct, frozen=True, kw_only=True):
    """What is true. cost: of treatment, times control's; the others: treatment minus control."""

    cost: float = 0.7
    thumbs: float = 0.0
    error: float = 0.0
    thumbs_rate: float = 0.3
    error_rate: float = 0.02
    spread: float = 0.5


def shipped(
    world: World, *, share: float, units: int, runs: int, planned: float, seed: int = 3
) -> list[float]:
    """By run, the units at which every clause holds for the first time; inf: never."""
    rng = np.random.default_rng(seed)
    looks = np.arange(50, units + 1, 10)
    look = Look(alpha=ALPHA, planned=planned / 8)
    at: list[float] = []
    for _ in range(runs):
        treated = rng.random(units) < share
        holds = np.ones(len(looks), dtype=np.bool_)
        for clause, values in zip(CLAUSES, _values(rng, world, treated), strict=True):
            moments = arriving(treated, np.ones(units), values, looks)
            bounds = band(moments, look, clause.metric.bounds, one_side=True)
            gain = bounds.low if clause.metric.better == "higher" else -bounds.high
            holds &= gain > clause.margin
        at.append(float(looks[holds.argmax()]) if holds.any() else inf)
    return at


def _values(rng: np.random.Generator, world: World, treated: Bools) -> tuple[Floats, ...]:
    units = len(treated)
    cost = rng.lognormal(0, world.spread, units) * np.where(treated, world.cost, 1.0)
    thumbs = rng.random(units) < world.thumbs_rate + world.thumbs * treated
    error = rng.random(units) < world.error_rate + world.error * treated
    return cost, thumbs.astype(np.float64), error.astype(np.float64)


AT_A_MARGIN: dict[str, World] = {
    "cost": World(cost=1.0, thumbs=0.05, error=-0.01),
    "thumbs": World(thumbs=-0.02, error=-0.01),
    "error": World(thumbs=0.05, error=0.005),
    "error, rate .005": World(thumbs=0.05, error=0.005, error_rate=0.005),
    "all": World(cost=1.0, thumbs=-0.02, error=0.005),
}


def at_most(rate: float, runs: int) -> float:
    return rate + 3 * sqrt(rate * (1 - rate) / runs)


@pytest.mark.parametrize("name", ["thumbs", "error, rate .005"])
def test_what_is_at_its_margin_is_rarely_shipped(name: str) -> None:
    at = shipped(AT_A_MARGIN[name], share=0.1, units=6_000, runs=80, planned=6_000)

    assert np.mean(np.isfinite(at)) <= ALPHA


@pytest.mark.nightly
@pytest.mark.parametrize("share", [0.5, 0.1])
@pytest.mark.parametrize("name", AT_A_MARGIN)
def test_no_clause_at_its_margin_is_shipped_more_often_than_alpha(name: str, share: float) -> None:
    at = shipped(AT_A_MARGIN[name], share=share, units=20_000, runs=TRIALS, planned=10_000)
    wrong = float(np.mean(np.isfinite(at)))
    print(f"{name}, {100 * share:g} %: {100 * wrong:.1f} % shipped")

    assert wrong <= at_most(ALPHA, TRIALS)


def planned_units(world: World, share: float) -> int:
    """Of the clause that needs most, each with a third of the power that may be missed."""
    shares = (1 - share, share)
    mean = exp(world.spread**2 / 2)
    sd = mean * sqrt(exp(world.spread**2) - 1)
    needed = (
        plan_clause(
            baseline=mean,
            apart=mean * (1 - world.cost),
            better=True,
            sd=sd,
            power=1 - 0.2 / 3,
            shares=shares,
        ),
        plan_clause(
            baseline=world.thumbs_rate, apart=0.02, better=False, power=1 - 0.2 / 3, shares=shares
        ),
        plan_clause(
            baseline=world.error_rate, apart=0.005, better=False, power=1 - 0.2 / 3, shares=shares
        ),
    )
    return max(one.total for one in needed)


@pytest.mark.parametrize(
    ("share", "runs"),
    [
        (0.5, 25),
        pytest.param(0.5, TRIALS // 4, marks=pytest.mark.nightly),
        pytest.param(0.1, TRIALS // 10, marks=pytest.mark.nightly),
    ],
)
def test_a_treatment_that_is_cheaper_and_as_good_is_shipped_by_the_planned_sample(
    share: float, runs: int
) -> None:
    world = World()
    units = planned_units(world, share)

    at = shipped(world, share=share, units=units, runs=runs, planned=units)
    found = float(np.mean(np.isfinite(at)))
    print(f"{100 * share:g} %: {units:,} units, {100 * found:.1f} % shipped")

    assert found >= 0.8 - 3 * sqrt(0.16 / runs)


def rows(metric: str, share: float, control: float, treatment: float, units: int) -> list[UnitRow]:
    """One value a unit; exact parts of ones in each arm."""
    found: list[UnitRow] = []
    for arm, rate, count in (
        ("old", control, round(units * (1 - share))),
        ("new", treatment, round(units * share)),
    ):
        found += [
            UnitRow(
                unit=f"{arm}{unit}",
                epoch=1,
                variant=arm,
                count=1,
                total=float(unit < round(rate * count)),
            )
            for unit in range(count)
        ]
    return found


def case(
    thumbs: tuple[float, float], error: tuple[float, float], units: int = 40_000
) -> ReportInput:
    outcomes: dict[str, Outcomes] = {
        "thumbs_up": summarised(rows("thumbs_up", 0.5, *thumbs, units)),
        "error": summarised(rows("error", 0.5, *error, units)),
    }
    clauses = (Clause(metric=THUMBS), Clause(metric=ERROR, by=0.005))
    return ReportInput(
        control="old",
        treatments=("new",),
        primary=THUMBS,
        outcomes=outcomes,
        decide=clauses,
        planned=5_000,
    )


def test_ship_names_what_holds() -> None:
    verdict = verdict_of(case((0.3, 0.35), (0.02, 0.018)))

    assert verdict.kind == "ship"
    assert verdict.sentence.startswith("ship new: thumbs_up rises by at least 0.0")
    assert "error" in verdict.sentence
    assert verdict.decisions[0].ship


def test_what_is_missing_is_named_with_the_units_to_go() -> None:
    verdict = verdict_of(case((0.3, 0.35), (0.02, 0.0215)))

    assert verdict.kind == "undecided"
    assert verdict.sentence.startswith("new is undecided: error is not shown to be within 0.005")
    assert "more units" in verdict.sentence
    assert "thumbs_up" not in verdict.sentence
    [missing] = [one for one in verdict.decisions[0].clauses if not one.holds]
    assert missing.metric == "error"
    assert missing.more_units
    assert missing.more_units > 0


def test_a_clause_that_cannot_hold_any_more_is_a_reason_not_to_ship() -> None:
    verdict = verdict_of(case((0.3, 0.35), (0.02, 0.05)))

    assert verdict.kind == "do_not_ship"
    assert verdict.sentence == (
        "do not ship new: error is worse by more than the 0.005 that is allowed"
    )


def test_without_data_nothing_is_decided() -> None:
    empty = ReportInput(
        control="old", treatments=("new",), primary=THUMBS, outcomes={}, decide=CLAUSES
    )

    verdict = verdict_of(empty)

    assert verdict.kind == "undecided"
    assert not verdict.decisions[0].refuted
    assert "not enough data for an interval" in verdict.sentence


@pytest.mark.parametrize("sign", [1, -1])
def test_the_bounds_are_those_of_the_one_sided_sequence(sign: int) -> None:
    outcomes = summarised(rows("error", 0.3, 0.1, 0.12, 3_000))
    look = Look(planned=400)
    found = effect(outcomes, control="old", treatment="new", look=look, bounds=(0.0, 1.0))
    metric = Metric(name="m", better="higher" if sign == 1 else "lower", bounds=(0.0, 1.0))

    decision = decided([Clause(metric=metric, by=0.01)], [found], treatment="new", look=look)

    assert decision.clauses[0].at_least == lower_bound(found, look, sign=sign)


def test_a_margin_for_times_is_a_part() -> None:
    assert Clause(metric=BUILT_IN["latency_ms"], by=0.1).margin == pytest.approx(-log(1.1))


@pytest.mark.parametrize(("change", "words"), [(-0.8, "falls by at least"), (0.05, "rises by")])
def test_a_bound_on_a_time_is_the_change_that_it_says(change: float, words: str) -> None:
    metric = BUILT_IN["latency_ms"]
    outcomes = summarised(
        UnitRow(
            unit=f"{arm}-{number}",
            epoch=1,
            variant=arm,
            count=1,
            total=5 + 0.1 * (number % 7) + change * (arm == "new"),
        )
        for arm in ("old", "new")
        for number in range(1_000)
    )
    look = Look(planned=400)
    found = effect(outcomes, control="old", treatment="new", look=look)
    most = -lower_bound(found, look, sign=-1)

    (clause,) = decided(
        [Clause(metric=metric, by=None if change < 0 else 0.3)],
        [found],
        treatment="new",
        look=look,
    ).clauses

    assert clause.holds
    assert clause.at_least == pytest.approx(1 - exp(most))
    assert words in clause.sentence
    assert f"{100 * abs(1 - exp(most)):.3g} %" in clause.sentence
