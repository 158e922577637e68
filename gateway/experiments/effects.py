"""How much better a variant is than control, with an interval that stays valid while people look.

Per epoch e, d(e) is the difference of the two arms' means per observation (a ratio of sums). Over
epochs it is combined with Cochran's weights, h(e) = n1 n0 / (n1 + n0) of the arms' units: sum(h d)
/ sum(h). They depend on the shares alone and not on outcomes, so a drifting base rate cancels
within each epoch and cannot bend the weights; were all variances alike they would be the
inverse-variance weights. W. G. Cochran, "Some methods for strengthening the common chi-squared
tests", Biometrics 1954.

The variance is that of sum(h d) as a sum over units, by the delta method: a unit adds ± h (total −
mean · count) / (sum of counts) for each cell it came in, and these sums are squared, so that a
unit's own observations, and its visits in several epochs, are not taken for independent ones.
Deng, Knoblich and Lu, "Applying the delta method in metric analytics", KDD 2018, arXiv 1803.06336,
section 3; for several visits it is the cluster-robust variance.

h(e) d(e) grows unit by unit as a random walk, and so does its sum over epochs: one walk, over the
borders of epochs, with time sum(h); `intervals` bounds it. Outcomes that come later for units seen
before are correlated positively with what these units showed, which makes the walk smoother than
independent steps would, and its maximum smaller (D. Slepian, "The one-sided barrier problem for
Gaussian noise", 1962).
"""

from collections.abc import Iterator
from math import inf, sqrt

from msgspec import Struct

from gateway.experiments import intervals
from gateway.experiments.outcomes import Cell, Link, Outcomes, Place

FEWEST_UNITS = 10
"""In each arm, for an epoch to count: below, its own means are too loose to centre on."""

FEWEST_EFFECTIVE = 25.0
"""Units of equal size that would be as good (Kish), in each arm, for an interval to be given."""


ROUNDING = 4 * 2.0**-52
"""Of a sum's terms, times the root of their number: as far as it is likely to be off."""


class Look(Struct, frozen=True, kw_only=True):
    """How the interval is made; fixed before the experiment begins.

    alpha:   that the interval ever misses, over all looks; (0, 1). With several treatments, each
             one's share of it.
    planned: n1 n0 / (n1 + n0) of the planned units, where the interval is narrowest; `Plan.pairs`.
    """

    alpha: float = 0.05
    planned: float = 2_500.0


class Effect(Struct, frozen=True, kw_only=True):
    """Treatment minus control, on the metric's scale.

    difference: the estimate; 0.0 where `pairs` is 0.
    low, high:  the interval; −inf and inf, in JSON null, until there is enough to give one.
    error:      one standard error, inf likewise.
    p:          always valid, for no difference.
    units:      observed, of both arms (a unit counts once for each epoch).
    pairs:      sum of n1 n0 / (n1 + n0) over the epochs used.
    effective:  of the arm that has fewer: how many units of equal size its units are worth.
    left_out:   epochs without enough units in both arms.
    """

    difference: float = 0.0
    low: float = -inf
    high: float = inf
    error: float = inf
    p: float = 1.0
    units: int = 0
    pairs: float = 0.0
    effective: float = 0.0
    left_out: tuple[int, ...] = ()

    @property
    def known(self) -> bool:
        return self.error < inf


class _Weighted(Struct, frozen=True, kw_only=True):
    """A cell with the factor of its units' residuals, h(e) / count, negative for control."""

    cell: Cell
    factor: float


def effect(
    outcomes: Outcomes,
    *,
    control: str,
    treatment: str,
    look: Look,
    bounds: tuple[float, float] | None = None,
) -> Effect:
    """The stratified difference and its confidence sequence.

    bounds: of single observations; without them, the range of all units' means seen so far.
    """
    by_place = {cell.place: cell for cell in outcomes.cells}
    epochs = sorted({epoch for epoch, arm in by_place if arm in (control, treatment)})
    used: dict[Place, _Weighted] = {}
    left_out: list[int] = []
    sum_pairs = weighted = 0.0
    units = 0
    for epoch in epochs:
        one, other = by_place.get((epoch, treatment)), by_place.get((epoch, control))
        if one is None or other is None or min(one.units, other.units) < FEWEST_UNITS:
            left_out.append(epoch)
            continue
        pairs = one.units * other.units / (one.units + other.units)
        sum_pairs += pairs
        weighted += pairs * (one.mean - other.mean)
        units += one.units + other.units
        used[one.place] = _Weighted(cell=one, factor=pairs / one.count)
        used[other.place] = _Weighted(cell=other, factor=-pairs / other.count)
    if not used:
        return Effect(left_out=tuple(left_out))
    links = [link for link in outcomes.links if link.one in used and link.other in used]
    effective = min(_effective(used, links, arm, sum_pairs) for arm in (control, treatment))
    found = Effect(
        difference=weighted / sum_pairs,
        units=units,
        pairs=sum_pairs,
        effective=effective,
        left_out=tuple(left_out),
    )
    variance, off = _variance(used, links, bounds or _seen(used))
    if effective < FEWEST_EFFECTIVE or not variance > off:
        return found
    return _bounded(found, variance + off, look)


def _bounded(found: Effect, variance: float, look: Look) -> Effect:
    """variance: of difference · pairs. The walk is scaled so that its variance is `pairs`."""
    pairs = found.pairs
    step = sqrt(variance / pairs)
    rho = intervals.tuned(look.planned, look.alpha)
    radius = intervals.two_sided(pairs, rho, look.alpha) * step / pairs
    return Effect(
        difference=found.difference,
        low=found.difference - radius,
        high=found.difference + radius,
        error=sqrt(variance) / pairs,
        p=intervals.p_value(found.difference * pairs / step, pairs, rho),
        units=found.units,
        pairs=pairs,
        effective=found.effective,
        left_out=found.left_out,
    )


def least(found: Effect, look: Look, *, sign: int) -> float:
    """What sign · difference is at least, one-sided, always valid; −inf while unknown.

    sign: 1 or −1. look.alpha: that the bound is ever above the truth.
    """
    if not found.known:
        return -inf
    rho = intervals.tuned(look.planned, 2 * look.alpha)
    step = found.error * sqrt(found.pairs)
    radius = intervals.one_sided(found.pairs, rho, look.alpha) * step / found.pairs
    return sign * found.difference - radius


def _variance(
    used: dict[Place, _Weighted], links: list[Link], bounds: tuple[float, float] | None
) -> tuple[float, float]:
    """And how far rounding may have put it off.

    Moments about 0 cannot tell the spread of values that are very much larger than it: a textbook
    variance, of which little is left in a double when the values agree in their first 8 digits
    (T. F. Chan, G. H. Golub and R. J. LeVeque, "Algorithms for computing the sample variance", The
    American Statistician 1983). Then it must not be taken for small.
    """
    total = off = 0.0
    for weighted in used.values():
        cell, squared = weighted.cell, weighted.factor**2
        total += squared * _squares(cell, bounds)
        terms = cell.total2 + 2 * abs(cell.mean * cell.product) + cell.mean**2 * cell.count2
        off += squared * ROUNDING * sqrt(cell.units) * terms
    for link in links:
        one, other = used[link.one], used[link.other]
        m1, m0 = one.cell.mean, other.cell.mean
        terms = link.totals, -m0 * link.total_count, -m1 * link.count_total, m1 * m0 * link.counts
        twice = 2 * one.factor * other.factor
        total += twice * sum(terms)
        off += abs(twice) * ROUNDING * sqrt(link.units) * sum(map(abs, terms))
    return total, off


def _seen(used: dict[Place, _Weighted]) -> tuple[float, float] | None:
    """The least and greatest mean of any unit, of both arms; `None` where nobody looked."""
    least = [weighted.cell.least for weighted in used.values()]
    most = [weighted.cell.most for weighted in used.values()]
    low = min((value for value in least if value is not None), default=None)
    high = max((value for value in most if value is not None), default=None)
    return None if low is None or high is None else (low, high)


def _squares(cell: Cell, bounds: tuple[float, float] | None) -> float:
    """The sum over units of (total − mean · count)², for a mean that was itself estimated.

    Two units of the cell's average size are added for this, one at each bound, as Agresti and
    Caffo do ("Simple and effective confidence intervals", The American Statistician 2000):
    otherwise a small arm that has not met what is rare, an error or a giant bill, would look
    certain of its mean.
    """
    mean = cell.mean
    squares = max(cell.total2 - 2 * mean * cell.product + mean * mean * cell.count2, 0.0)
    squares *= cell.units / (cell.units - 1)
    if bounds is not None:
        size = cell.count / cell.units
        low, high = bounds
        squares += size * size * ((low - mean) ** 2 + (high - mean) ** 2)
    return squares


def _effective(
    used: dict[Place, _Weighted], links: list[Link], arm: str, sum_pairs: float
) -> float:
    """(sum of weights)² / sum of weights² over units, a unit's weight being its counts · factors.

    L. Kish, Survey Sampling, 1965, section 11.2.
    """

    def squares() -> Iterator[float]:
        for weighted in used.values():
            if weighted.cell.variant == arm:
                yield weighted.factor**2 * weighted.cell.count2
        for link in links:
            if link.one[1] == arm and link.other[1] == arm:
                yield 2 * used[link.one].factor * used[link.other].factor * link.counts

    return sum_pairs**2 / sum(squares())
