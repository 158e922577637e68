"""The variance of a sum over units, and the effective number of units.

The delta method with the unit as the cluster (see `effects`), with additions, because the normal
approximation is used for small arms and rare events at 3 to 6 standard errors.
"""

from collections.abc import Iterator, Mapping, Sequence
from math import sqrt

from msgspec import Struct

from strowger_gateway.gateway.statistics.outcomes import Cell, Place, SharedUnits

ROUNDING = 4 * 2.0**-52
"""Likely rounding error of a sum, relative to its terms, times the root of their number."""

EXTREMES = 1.5
"""Units added to each cell at each end of the range of all units' means."""

RARE = 1 / 3
"""Observations added to each cell at each bound, times the squared reach."""


class Weighted(Struct, frozen=True, kw_only=True):
    """A cell with the factor of its units' residuals, h(e) / count, negative for control."""

    cell: Cell
    factor: float


def variance_of(
    used: Mapping[Place, Weighted],
    links: Sequence[SharedUnits],
    *,
    seen: tuple[float, float] | None,
    bounds: tuple[float, float] | None,
    reach: float,
) -> tuple[float, float]:
    """Return the variance of the weighted sum, and its possible rounding error.

    seen: the range of the units' means. bounds: of single observations. reach: the radius of the
    interval that it is for, in standard errors.

    Moments about 0 cannot represent a spread that is very much smaller than the values: a textbook
    variance, of which few digits are left in a double if the values agree in their first 8 digits
    (T. F. Chan, G. H. Golub and R. J. LeVeque, "Algorithms for computing the sample variance", The
    American Statistician 1983). Then it must not be treated as small.
    """
    total = off = 0.0
    for weighted in used.values():
        cell, squared = weighted.cell, weighted.factor**2
        total += squared * (_squares(cell) + _added(cell, seen, bounds, reach))
        terms = cell.total2 + 2 * abs(cell.mean * cell.product) + cell.mean**2 * cell.count2
        terms += cell.cancelled
        off += squared * ROUNDING * sqrt(cell.units) * terms
    for link in links:
        one, other = used[link.one], used[link.other]
        m1, m0 = one.cell.mean, other.cell.mean
        terms = link.totals, -m0 * link.total_count, -m1 * link.count_total, m1 * m0 * link.counts
        twice = 2 * one.factor * other.factor
        total += twice * sum(terms)
        off += abs(twice) * ROUNDING * sqrt(link.units) * sum(map(abs, terms))
    return total, off


def range_seen(used: Mapping[Place, Weighted]) -> tuple[float, float] | None:
    """Return the least and greatest mean of any unit, of both arms; `None` if not computed."""
    least = [weighted.cell.least for weighted in used.values()]
    most = [weighted.cell.most for weighted in used.values()]
    low = min((value for value in least if value is not None), default=None)
    high = max((value for value in most if value is not None), default=None)
    return None if low is None or high is None else (low, high)


def effective_units(
    used: Mapping[Place, Weighted], links: Sequence[SharedUnits], arm: str, sum_pairs: float
) -> float:
    """Return (sum of weights)² / sum of weights² over units.

    A unit's weight is the sum of its weights · factors over cells.

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


def _squares(cell: Cell) -> float:
    """Return the sum over units of (total − mean · count)², corrected for the estimated mean."""
    mean = cell.mean
    squares = max(cell.total2 - 2 * mean * cell.product + mean * mean * cell.count2, 0.0)
    return squares * cell.units / (cell.units - 1)


def _added(
    cell: Cell,
    seen: tuple[float, float] | None,
    bounds: tuple[float, float] | None,
    reach: float,
) -> float:
    """Add what the cell has not observed: the squares of a few more units and observations.

    Agresti and Caffo ("Simple and effective confidence intervals for proportions", The American
    Statistician 2000) add z²/4 successes and failures for each arm, one for z = 1.96; here z is 3
    to 6, and the estimate itself is not shifted, which needs somewhat more. Rare observations are
    added as single observations at the bounds, however many requests a unit sends; one of a unit
    that weighs less than its observations weighs less, too (`Cell.single`). Rare units are
    added at the ends of the range of the units' means, with the size of the unit that sends the
    average observation: if a few units send nearly everything, the next one may, too.
    The two constants were chosen by simulation (docs/experiments-statistics.md).
    """
    added = 0.0
    if seen is not None:
        added += EXTREMES * (cell.count2 / cell.count) ** 2 * _ends(seen, cell.mean)
    if bounds is not None:
        added += RARE * reach**2 * cell.single * _ends(bounds, cell.mean)
    return added


def _ends(ends: tuple[float, float], mean: float) -> float:
    low, high = ends
    return (low - mean) ** 2 + (high - mean) ** 2
