"""How often adjusted intervals err, and how wide they are: simulated experiments with peeking.

The tables of docs/experiments-statistics.md are from the tests marked nightly; `STROWGER_TRIALS`
sets their runs. "Shown" is what a report shows: without adjustment where covariates differ.
"""

import os
from collections.abc import Callable, Sequence
from math import exp, sqrt

import numpy as np
import pytest
from msgspec import Struct

from strowger_gateway.gateway.statistics.effects import Look, effect
from strowger_gateway.gateway.statistics.outcomes import UnitRow
from tests.gateway.statistics.adjusted_looks import Units, looked
from tests.gateway.statistics.crowd import NAMES, pareto_counts
from tests.gateway.statistics.fleet import Bools, Floats
from tests.gateway.statistics.joint_rows import Covaried, adjusted_rows

TRIALS = int(os.environ.get("STROWGER_TRIALS", "400"))
RATE = (0.0, 1.0)
Drawn = tuple[Floats, Floats, Sequence[Floats]]
"""By unit: observations, their sum, and each covariate; NaN where unknown."""
Crowd = Callable[[np.random.Generator, Bools], Drawn]


def one_request(correlation: float, lift: float = 0.0) -> Crowd:
    """A cost per unit that has this correlation with its tokens, which are log-normal(0.8)."""

    def draw(rng: np.random.Generator, treated: Bools) -> Drawn:
        tokens = rng.lognormal(6, 0.8, len(treated))
        noise = rng.normal(0, _spread(0.8) * sqrt(1 / correlation**2 - 1), len(treated))
        return np.ones(len(treated)), tokens + noise + lift * treated, [tokens]

    return draw


def several_requests(correlation: float, *, busy: bool, lift: float = 0.0) -> Crowd:
    """Requests whose costs each have this correlation with their own tokens; users differ in length
    (correlation 0.3 of log tokens). busy: Pareto(1.5) numbers of requests, else Poisson(4) + 1."""

    def draw(rng: np.random.Generator, treated: Bools) -> Drawn:
        units = len(treated)
        counts = pareto_counts(rng, units, 1.5) if busy else 1.0 + rng.poisson(4, units)
        counts = np.minimum(counts, 2_000)
        whose = np.repeat(np.arange(units), counts.astype(np.int64))
        own = rng.normal(0, sqrt(0.3), units)[whose] + rng.normal(0, sqrt(0.7), len(whose))
        tokens = np.exp(6 + 0.8 * own)
        noise = rng.normal(0, _spread(0.8) * sqrt(1 / correlation**2 - 1), len(whose))
        costs = tokens + noise + lift * treated[whose]
        total = np.asarray(np.bincount(whose, costs, units), np.float64)
        return counts, total, [np.bincount(whose, tokens, units) / counts]

    return draw


def spenders(correlation: float) -> Crowd:
    """One cost per unit, half of whose noise is the user's own; the past is another such cost
    without its tokens' part, of 80 % of the users."""

    def draw(rng: np.random.Generator, treated: Bools) -> Drawn:
        units = len(treated)
        spread = _spread(0.8) * sqrt((1 / correlation**2 - 1) / 2)
        own = rng.normal(0, spread, units)
        tokens = rng.lognormal(6, 0.8, units)
        past = own + rng.normal(0, spread / 2, units)
        past[rng.random(units) >= 0.8] = np.nan
        return np.ones(units), tokens + own + rng.normal(0, spread, units), [tokens, past]

    return draw


def votes(shape: float, rate: float, *, known: float) -> Crowd:
    """Votes of users with rates of their own (correlation 1/3), of whom a part has a past."""

    def draw(rng: np.random.Generator, treated: Bools) -> Drawn:
        units = len(treated)
        own = rng.beta(rate * 2, (1 - rate) * 2, units)
        counts, before = (pareto_counts(rng, units, shape) for _ in range(2))
        total = rng.binomial(counts.astype(np.int64), own).astype(np.float64)
        past = rng.binomial(before.astype(np.int64), own) / before
        past[rng.random(units) >= known] = np.nan
        return counts, total, [past]

    return draw


def root_of_tokens(rng: np.random.Generator, treated: Bools) -> Drawn:
    """Not linear: a cost that grows with the root of log-normal(1.5) tokens."""
    tokens = rng.lognormal(6, 1.5, len(treated))
    return np.ones(len(treated)), np.sqrt(tokens) * rng.lognormal(0, 0.5, len(treated)), [tokens]


def errors(rate: float) -> Crowd:
    """Errors in proportion to the prompt's tokens."""

    def draw(rng: np.random.Generator, treated: Bools) -> Drawn:
        tokens = rng.lognormal(6, 1, len(treated))
        failed = rng.random(len(treated)) < rate * tokens / exp(6.5)
        return np.ones(len(treated)), failed.astype(np.float64), [tokens]

    return draw


def _spread(sigma: float) -> float:
    """The standard deviation of exp(6 + sigma · normal)."""
    return sqrt((exp(sigma**2) - 1) * exp(12 + sigma**2))


class Counted(Struct, frozen=True, kw_only=True):
    """Parts of the runs. missed: the interval that is shown ever misses the truth; adjusted, raw:
    that with and without the adjustment. differs: the covariate ever does. ratio: of the standard
    errors at the end, with to without, the median."""

    missed: float
    adjusted: float
    raw: float
    differs: float
    ratio: float


def peeked(
    crowd: Crowd,
    *,
    share: float = 0.5,
    ramp: tuple[float, ...] = (),
    planned: float = 10_000,
    truth: float = 0.0,
    bounds: tuple[float, float] | None = None,
    units: int = 4_000,
    every: int = 50,
    runs: int,
) -> Counted:
    """ramp: shares of epochs with as many units each; otherwise one epoch."""
    rng = np.random.default_rng(1)
    looks = np.arange(50, units + 1, every)
    epochs = np.arange(units) * max(len(ramp), 1) // units
    shares = np.array(ramp or (share,))[epochs]
    counts = np.zeros(4)
    ratios: list[float] = []
    for _ in range(runs):
        treated = rng.random(units) < shares
        count, total, values = crowd(rng, treated)
        drawn = Units(treated=treated, count=count, total=total, values=values, epochs=epochs)
        found = looked(drawn, looks, Look(planned=planned / 8), bounds)
        counts += (
            _misses(found.low, found.high, truth),
            _misses(found.adjusted.low, found.adjusted.high, truth),
            _misses(found.raw.low, found.raw.high, truth),
            bool(found.differs.any()),
        )
        if found.adjusted.error[-1] < np.inf:
            ratios.append(float(found.adjusted.error[-1] / found.raw.error[-1]))
    missed, adjusted, raw, differs = (counts / runs).tolist()
    return Counted(
        missed=missed,
        adjusted=adjusted,
        raw=raw,
        differs=differs,
        ratio=float(np.median(ratios)) if ratios else np.nan,
    )


def _misses(low: Floats, high: Floats, truth: float) -> bool:
    return bool(((low > truth) | (high < truth)).any())


def at_most(rate: float, runs: int) -> float:
    return rate + 3 * sqrt(rate * (1 - rate) / runs)


@pytest.mark.parametrize("bounds", [None, RATE])
def test_the_arrays_and_the_gateway_compute_the_same(bounds: tuple[float, float] | None) -> None:
    rng = np.random.default_rng(9)
    treated = rng.random(600) < 0.3
    count, total, (past,) = votes(2, 0.3, known=0.6)(rng, treated)
    tokens = rng.lognormal(5, 1, 600)
    total = np.where(rng.random(600) < tokens / 1_500, count, total)
    epochs = np.arange(600) * 2 // 600
    drawn = Units(treated=treated, count=count, total=total, values=[tokens, past], epochs=epochs)
    rows = [
        Covaried(
            UnitRow(
                unit=str(unit),
                epoch=int(epochs[unit]),
                variant=NAMES[int(treated[unit])],
                count=int(count[unit]),
                total=float(total[unit]),
            ),
            {
                name: float(values[unit])
                for name, values in (("tokens", tokens), ("past", past))
                if not np.isnan(values[unit])
            },
        )
        for unit in range(600)
    ]

    theirs = looked(drawn, np.array([600]), Look(planned=300), bounds)

    ours = adjusted_rows(rows, ("tokens", "past"))
    ends = None if bounds is None else (bounds[0] - ours.moved, bounds[1] + ours.moved)
    found = effect(
        ours.outcomes, control=NAMES[0], treatment=NAMES[1], look=Look(planned=300), bounds=ends
    )
    assert [one.theta for one in ours.fitted] == pytest.approx(theirs.thetas.tolist(), rel=1e-9)
    assert all(theirs.thetas)
    band = theirs.adjusted
    assert (found.difference, found.low, found.high) == pytest.approx(
        (band.difference[0], band.low[0], band.high[0]), rel=1e-9
    )


@pytest.mark.parametrize(
    ("crowd", "share", "bounds"),
    [
        (one_request(0.7), 0.1, None),
        (several_requests(0.7, busy=True), 0.1, None),
        (votes(3, 0.3, known=0.9), 0.1, RATE),
    ],
)
def test_an_adjusted_interval_misses_no_more_often_than_promised(
    crowd: Crowd, share: float, bounds: tuple[float, float] | None
) -> None:
    found = peeked(crowd, share=share, planned=600, bounds=bounds, units=1_500, runs=60)

    assert found.missed <= 0.05


def test_a_correlation_with_the_prompts_narrows_the_interval() -> None:
    """0.714 is the least at a correlation of 0.7 with units that send one request each."""
    alone = peeked(one_request(0.7), units=2_000, every=500, runs=15)
    several = peeked(several_requests(0.7, busy=False), units=2_000, every=500, runs=15)

    assert 0.65 < alone.ratio < 0.75
    assert several.ratio < 0.65


class Case(Struct, frozen=True, kw_only=True):
    crowd: Crowd
    share: float = 0.5
    ramp: tuple[float, ...] = ()
    planned: float = 10_000
    truth: float = 0.0
    bounds: tuple[float, float] | None = None


RAMP = (0.05, 0.1, 0.2, 0.35, 0.5)
LIFT = 300.0
CASES: dict[str, Case] = {
    **{
        f"one request, {100 * share:g} %, planned {planned:,}": Case(
            crowd=one_request(0.7), share=share, planned=planned
        )
        for share, planned in ((0.5, 10_000), (0.1, 10_000), (0.1, 600), (0.02, 10_000))
    },
    "Poisson(4) + 1 requests, 50 %": Case(crowd=several_requests(0.7, busy=False)),
    **{
        f"Pareto(1.5) requests, {100 * share:g} %": Case(
            crowd=several_requests(0.7, busy=True), share=share
        )
        for share in (0.5, 0.1, 0.02)
    },
    **{
        f"Pareto({shape:g}) votes at {rate:g}, past of {100 * known:g} %, {100 * share:g} %, "
        f"planned {planned:,}": Case(
            crowd=votes(shape, rate, known=known), share=share, planned=planned, bounds=RATE
        )
        for shape, rate, known, share, planned in (
            (1.5, 0.12, 0.6, 0.5, 10_000), (1.5, 0.12, 0.6, 0.1, 10_000), (3, 0.3, 0.9, 0.1, 600),
            (1.5, 0.12, 0.6, 0.05, 2_000),
        )
    },
    **{
        f"one request, tokens and past, {100 * share:g} %": Case(crowd=spenders(0.7), share=share)
        for share in (0.5, 0.1)
    },
    "root of tokens, 10 %": Case(crowd=root_of_tokens, share=0.1),
    "errors at 0.01, 10 %": Case(crowd=errors(0.01), share=0.1, bounds=RATE),
    "errors at 0.05, 10 %, planned 1,500": Case(
        crowd=errors(0.05), share=0.1, planned=1_500, bounds=RATE
    ),
    "ramp, Pareto(1.5) votes": Case(crowd=votes(1.5, 0.12, known=0.6), ramp=RAMP, bounds=RATE),
    "ramp, Pareto(1.5) requests": Case(crowd=several_requests(0.7, busy=True), ramp=RAMP),
    "a true difference, one request, 10 %": Case(
        crowd=one_request(0.7, lift=LIFT), share=0.1, truth=LIFT
    ),
    "a true difference, Pareto(1.5) requests, 50 %": Case(
        crowd=several_requests(0.7, busy=True, lift=LIFT), truth=LIFT
    ),
}  # fmt: skip


@pytest.mark.nightly
@pytest.mark.parametrize("name", CASES)
def test_every_cell_of_the_table_of_adjusted_intervals_holds_its_level(name: str) -> None:
    case = CASES[name]

    found = peeked(
        case.crowd,
        share=case.share,
        ramp=case.ramp,
        planned=case.planned,
        truth=case.truth,
        bounds=case.bounds,
        runs=TRIALS,
    )

    print(
        f"\n{name}: missed {100 * found.missed:.1f} % (adjusted {100 * found.adjusted:.1f},"
        f" without {100 * found.raw:.1f}), covariate differs {100 * found.differs:.1f} %,"
        f" width {found.ratio:.3f}"
    )
    assert found.missed <= at_most(0.05, TRIALS)
    assert found.differs <= at_most(0.01, TRIALS)
