"""The effect of a variant compared with control, with an interval that is valid at every look.

Per epoch e, d(e) is the difference of the two arms' means per observation (a ratio of sums). Over
epochs it is combined with Cochran's weights, h(e) = n1 n0 / (n1 + n0) of the arms' units: sum(h d)
/ sum(h). They depend on the shares alone and not on outcomes, so a drifting base rate cancels
within each epoch and cannot bias the weights; with equal variances they would be the
inverse-variance weights. W. G. Cochran, "Some methods for strengthening the common chi-squared
tests", Biometrics 1954.

The variance is that of sum(h d) as a sum over units, by the delta method: a unit adds ± h (total −
mean · count) / (sum of counts) for each cell it appears in, and these sums are squared, so that a
unit's own observations, and its visits in several epochs, are not treated as independent.
Deng, Knoblich and Lu, "Applying the delta method in metric analytics", KDD 2018, arXiv 1803.06336,
section 3; for several visits it is the cluster-robust variance.

With each observation h(e) d(e) moves as a random walk, and so does its sum over epochs: one walk
across the borders of epochs. Its time is sum(N1 N0 / (N1 + N0)) of the arms' *observations*, not of
their units, since requests of known units move it too. For means of samples that grow, the
estimate times its information (1 / variance) is a Brownian motion in information time (D. O.
Scharfstein, A. A. Tsiatis and J. M. Robins, "Semiparametric efficiency and its implication on the
design and analysis of group-sequential studies", JASA 1997). Information grows as fast as
observations where they are independent, and more slowly the more alike one unit's requests are. A
boundary whose time is the number of observations therefore lies farther out than the walk needs,
never nearer.
"""

from math import inf, sqrt

from msgspec import Struct
from msgspec.structs import replace

from strowger_gateway.gateway.statistics import confidence_sequence as intervals
from strowger_gateway.gateway.statistics.outcomes import Outcomes, Place
from strowger_gateway.gateway.statistics.variance import (
    Weighted,
    effective_units,
    range_seen,
    variance_of,
)
from strowger_gateway.gateway.statistics.weights import FEWEST_UNITS

FEWEST_EFFECTIVE = 25.0
"""Minimum effective units (Kish: equal-sized units worth as much) in each arm for an interval."""

ALMOST = 1 - 1e-9
"""Tolerance on FEWEST_EFFECTIVE: sums of fractions make 24.999999999999996 of 25 equal units."""


class Look(Struct, frozen=True, kw_only=True):
    """The parameters of the interval, fixed before the experiment begins.

    alpha:   the probability that the interval ever misses, over all looks; (0, 1). With several
             treatments, the share of each.
    planned: n1 n0 / (n1 + n0) of the planned observations, where the interval is narrowest: those
             of `SamplePlan.pairs` if each unit has one.
    among:   treatments that share alpha: `Effect.p` is below their total alpha exactly when the
             interval excludes 0.
    fewest:  effective units in each arm before an interval is given.
    """

    alpha: float = 0.05
    planned: float = 1_250.0
    among: int = 1
    fewest: float = FEWEST_EFFECTIVE


class Effect(Struct, frozen=True, kw_only=True):
    """Treatment minus control, on the metric's scale.

    difference: the estimate; 0.0 where `pairs` is 0.
    low, high:  the interval; −inf and inf, in JSON null, until there are enough data for one.
    error:      one standard error; inf without an interval.
    p:          always valid, against no difference; multiplied by the number of treatments
                (`Look.among`).
    units:      observed, of both arms (a unit counts once for each epoch).
    pairs:      sum of n1 n0 / (n1 + n0) of the units, over the epochs used.
    time:       the same of the observations: the time of the walk.
    effective:  effective units of the arm that has fewer: equal-sized units worth as much.
    excluded_epochs: epochs without enough units in both arms.
    """

    difference: float = 0.0
    low: float = -inf
    high: float = inf
    error: float = inf
    p: float = 1.0
    units: int = 0
    pairs: float = 0.0
    time: float = 0.0
    effective: float = 0.0
    excluded_epochs: tuple[int, ...] = ()

    @property
    def known(self) -> bool:
        return self.error < inf


def effect(
    outcomes: Outcomes,
    *,
    control: str,
    treatment: str,
    look: Look,
    bounds: tuple[float, float] | None = None,
) -> Effect:
    """Compute the stratified difference and its confidence sequence.

    bounds: of single observations; without them, the observed range of all units' means is used.
    """
    by_place = {cell.place: cell for cell in outcomes.cells}
    epochs = sorted({epoch for epoch, arm in by_place if arm in (control, treatment)})
    used: dict[Place, Weighted] = {}
    excluded_epochs: list[int] = []
    sum_pairs = weighted = time = 0.0
    units = 0
    for epoch in epochs:
        one, other = by_place.get((epoch, treatment)), by_place.get((epoch, control))
        if one is None or other is None or min(one.units, other.units) < FEWEST_UNITS:
            excluded_epochs.append(epoch)
            continue
        pairs = one.units * other.units / (one.units + other.units)
        sum_pairs += pairs
        weighted += pairs * (one.mean - other.mean)
        time += one.observed * other.observed / (one.observed + other.observed)
        units += one.units + other.units
        used[one.place] = Weighted(cell=one, factor=pairs / one.count)
        used[other.place] = Weighted(cell=other, factor=-pairs / other.count)
    if not used:
        return Effect(excluded_epochs=tuple(excluded_epochs))
    links = [link for link in outcomes.links if link.one in used and link.other in used]
    effective = min(effective_units(used, links, arm, sum_pairs) for arm in (control, treatment))
    found = Effect(
        difference=weighted / sum_pairs,
        units=units,
        pairs=sum_pairs,
        time=time,
        effective=effective,
        excluded_epochs=tuple(excluded_epochs),
    )
    rho = intervals.tuned(look.planned, look.alpha)
    reach = intervals.two_sided(time, rho, look.alpha) / sqrt(time)
    variance, off = variance_of(used, links, seen=range_seen(used), bounds=bounds, reach=reach)
    if effective < look.fewest * ALMOST or not variance > off:
        return found
    return _bounded(found, variance + off, look, rho=rho, reach=reach)


def _bounded(found: Effect, variance: float, look: Look, *, rho: float, reach: float) -> Effect:
    """Add the interval. variance: of difference · pairs. reach: its radius, in standard errors."""
    error = sqrt(variance) / found.pairs
    score = found.difference / error * sqrt(found.time)
    return replace(
        found,
        low=found.difference - reach * error,
        high=found.difference + reach * error,
        error=error,
        p=min(1.0, look.among * intervals.p_value(score, found.time, rho)),
    )


def lower_bound(found: Effect, look: Look, *, sign: int) -> float:
    """Return the one-sided, always valid lower bound of sign · difference; −inf while unknown.

    sign: 1 or −1. look.alpha: the probability that the bound is ever above the truth.
    """
    if not found.known:
        return -inf
    rho = intervals.tuned(look.planned, 2 * look.alpha)
    reach = intervals.one_sided(found.time, rho, look.alpha) / sqrt(found.time)
    return sign * found.difference - reach * found.error
