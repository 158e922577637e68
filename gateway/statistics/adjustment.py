"""Adjust a metric by what is known of units whatever their variant: narrower intervals, same truth.

A covariate z is a number of a unit that the variant cannot change: how long its prompts are, or
its own mean of the metric before the comparison began. What z predicts of a unit's total is taken
off: total' = total − sum_k theta_k · weight · (z_k − mean of z_k). Because the variants are drawn,
E z is the same in both, so the difference keeps its meaning, and only its variance changes: by
1 − R², with R² the share of the variance of the units' totals that the covariates explain.

A. Deng, Y. Xu, R. Kohavi and T. Walker, "Improving the sensitivity of online controlled experiments
by utilizing pre-experiment data", WSDM 2013 (CUPED), section 3. theta is fitted once for all
variants, and not for each one; with unequal variances that costs some width and no validity:
W. Lin, "Agnostic notes on regression adjustments to experimental data", Annals of Applied
Statistics 2013, section 4. A unit without a value has the average, and with it an indicator, which
is a covariate like any other.

The moments that it needs are the second moments of weight, total and covariates: linear algebra
turns them into the moments of adjusted totals, with which `effects` computes as with any other.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from math import sqrt

from msgspec import Struct
from msgspec.structs import replace

from strowger_gateway.gateway.statistics.least_squares import solved
from strowger_gateway.gateway.statistics.outcomes import Cell, Outcomes, Place, SharedUnits
from strowger_gateway.gateway.statistics.weights import FEWEST_UNITS

FEWEST_KNOWN = 25
"""Units with a covariate, and units without, below which it, or its indicator, is not fitted: what
fits a few units exactly would hide their variance."""

Vector = tuple[float, ...]
Matrix = tuple[Vector, ...]


class JointCell(Struct, frozen=True, kw_only=True):
    """A cell with the moments of its covariates, over the same units.

    Of K covariates there are 2 K regressors r, in pairs: weight · z, and the weight itself; both
    are 0 for a unit whose z is not known.

    known:  by covariate, the units with a value. ends: the least and the greatest value; `None`
            without any.
    sums:   of r. products: of r · r. weights: of r · weight. totals: of r · total.
    """

    cell: Cell
    known: tuple[int, ...]
    ends: tuple[tuple[float, float] | None, ...]
    sums: Vector
    products: Matrix
    weights: Vector
    totals: Vector


class JointLink(Struct, frozen=True, kw_only=True):
    """The units of two cells, with the sums of products across the cells; r as in JointCell.

    products:     of r in one (rows) · r in other (columns).
    one_weights:  of r in one · weight in other. one_totals: of r in one · total in other.
    other_weights: of weight in one · r in other. other_totals: of total in one · r in other.
    """

    link: SharedUnits
    products: Matrix
    one_weights: Vector
    one_totals: Vector
    other_weights: Vector
    other_totals: Vector


class Joint(Struct, frozen=True, kw_only=True):
    """The moments of one metric together with its covariates. covariates: their names, in order."""

    covariates: tuple[str, ...]
    cells: tuple[JointCell, ...] = ()
    links: tuple[JointLink, ...] = ()


class FittedCovariate(Struct, frozen=True, kw_only=True):
    """What is taken off a unit's total, of one covariate.

    theta:   change of the metric per unit of the covariate; 0.0 where it is not fitted.
    missing: the same for units without a value. mean: of the values, subtracted.
    share:   of the weight of units with a value, 0 to 1; subtracted from their indicator.
    coverage: the share of units with a value, 0 to 1.
    """

    covariate: str
    theta: float
    missing: float
    mean: float
    share: float
    coverage: float


class Linear(Struct, frozen=True, kw_only=True):
    """A linear function of a unit's moments: by_total · total + by_weight · weight + by · r."""

    by_total: float
    by_weight: float
    by: Vector


class Regressor(Struct, frozen=True, kw_only=True):
    """What an adjustment uses of a covariate: its value, or the indicator of units with a value.

    outcomes: its own moments, with weight · (value − mean of all) as totals.
    """

    covariate: str
    indicator: bool
    outcomes: Outcomes


class Adjusted(Struct, frozen=True, kw_only=True):
    """One metric after the adjustment.

    outcomes:   with adjusted totals.
    fitted:     by covariate, in their order.
    regressors: the values and indicators that the adjustment uses.
    moved:      how far the adjustment moves a unit's mean: the root of the mean square, on the
                metric's scale.
    """

    outcomes: Outcomes
    fitted: tuple[FittedCovariate, ...]
    regressors: tuple[Regressor, ...]
    moved: float


def compared(joint: Joint) -> dict[Place, float]:
    """Return the cells that are fitted, with the factor of their units' residuals.

    Within an epoch: h / sum of weights with h = n (N − n) / N, n units of the cell and N of all
    cells; with two variants the factor that the variance of their difference has.
    """
    by_epoch: defaultdict[int, list[Cell]] = defaultdict(list)
    for one in joint.cells:
        if one.cell.units >= FEWEST_UNITS:
            by_epoch[one.cell.epoch].append(one.cell)
    found: dict[Place, float] = {}
    for cells in by_epoch.values():
        whole = sum(cell.units for cell in cells)
        if len(cells) > 1:
            for cell in cells:
                found[cell.place] = cell.units * (whole - cell.units) / whole / cell.count
    return found


def alone(joint: Joint, variant: str) -> dict[Place, float]:
    """Return the cells of one variant, with equal factors for units of average weight: for plans,
    before there is anything to compare."""
    return {
        one.cell.place: one.cell.units / one.cell.count
        for one in joint.cells
        if one.cell.variant == variant and one.cell.units >= FEWEST_UNITS
    }


def fit(joint: Joint, factors: Mapping[Place, float]) -> tuple[FittedCovariate, ...]:
    """Fit theta by least squares of the residuals within cells; () if nothing can be fitted.

    factors: of the cells, as from `compared`.

    It minimises sum over cells of factor² · sum over units of (total' − mean' · weight)²: what the
    variance of the difference consists of.
    """
    cells = [one for one in joint.cells if one.cell.place in factors]
    if not cells:
        return ()
    units = sum(one.cell.units for one in cells)
    weight = sum(one.cell.count for one in cells)
    columns: list[Linear] = []
    known: list[tuple[bool, bool, float, float, float]] = []
    for place in range(len(joint.covariates)):
        with_value = sum(one.known[place] for one in cells)
        own = sum(one.sums[2 * place + 1] for one in cells)
        mean = sum(one.sums[2 * place] for one in cells) / own if own else 0.0
        share = own / weight
        valued = with_value >= FEWEST_KNOWN
        marked = valued and units - with_value >= FEWEST_KNOWN
        if valued:
            columns.append(value_of(joint, place, mean))
        if marked:
            columns.append(indicator_of(joint, place, share))
        known.append((valued, marked, mean, share, with_value / units))
    coefficients = iter(_coefficients(cells, factors, columns))
    return tuple(
        FittedCovariate(
            covariate=name,
            theta=next(coefficients) if valued else 0.0,
            missing=next(coefficients) if marked else 0.0,
            mean=mean,
            share=share,
            coverage=coverage,
        )
        for name, (valued, marked, mean, share, coverage) in zip(
            joint.covariates, known, strict=True
        )
    )


def value_of(joint: Joint, place: int, mean: float) -> Linear:
    """Return weight · (z − mean) of a covariate; 0 for units without a value."""
    by = [0.0] * (2 * len(joint.covariates))
    by[2 * place], by[2 * place + 1] = 1.0, -mean
    return Linear(by_total=0.0, by_weight=0.0, by=tuple(by))


def indicator_of(joint: Joint, place: int, share: float) -> Linear:
    """Return weight · (1 − share) of units with a value, and −weight · share of the others."""
    by = [0.0] * (2 * len(joint.covariates))
    by[2 * place + 1] = 1.0
    return Linear(by_total=0.0, by_weight=-share, by=tuple(by))


def remainder(fitted: Sequence[FittedCovariate]) -> Linear:
    """Return a unit's adjusted total."""
    by: list[float] = []
    by_weight = 0.0
    for one in fitted:
        by += [-one.theta, one.theta * one.mean - one.missing]
        by_weight += one.missing * one.share
    return Linear(by_total=1.0, by_weight=by_weight, by=tuple(by))


def adjusted(
    joint: Joint,
    fitted: Sequence[FittedCovariate],
    factors: Mapping[Place, float],
    ranges: Mapping[Place, tuple[float, float]],
) -> Adjusted:
    """Compute the moments of adjusted totals.

    factors: those of the fit. ranges: of each cell the least and the greatest of its units'
    adjusted means.
    """
    kept = remainder(fitted)
    predicted = replace(kept, by_total=0.0)
    squares = weights = 0.0
    for one in joint.cells:
        if one.cell.place in factors:
            squares += max(_square(one, predicted, predicted), 0.0)
            weights += one.cell.count2
    regressors: list[Regressor] = []
    for place, one in enumerate(fitted):
        if one.theta:
            column, ends = value_of(joint, place, one.mean), _value_ranges(joint, place, one.mean)
            found = combined(joint, column, ends)
            regressors.append(Regressor(covariate=one.covariate, indicator=False, outcomes=found))
        if one.missing:
            column = indicator_of(joint, place, one.share)
            ends = dict.fromkeys(factors, (-one.share, 1 - one.share))
            found = combined(joint, column, ends)
            regressors.append(Regressor(covariate=one.covariate, indicator=True, outcomes=found))
    return Adjusted(
        outcomes=combined(joint, kept, ranges),
        fitted=tuple(fitted),
        regressors=tuple(regressors),
        moved=sqrt(squares / weights) if weights else 0.0,
    )


def _value_ranges(joint: Joint, place: int, mean: float) -> dict[Place, tuple[float, float]]:
    """Return the range of z − mean in each cell; 0 is that of units without a value."""
    found: dict[Place, tuple[float, float]] = {}
    for one in joint.cells:
        ends = one.ends[place]
        values = [] if ends is None else [end - mean for end in ends]
        if one.known[place] < one.cell.units:
            values.append(0.0)
        found[one.cell.place] = min(values), max(values)
    return found


def combined(
    joint: Joint, of: Linear, ranges: Mapping[Place, tuple[float, float]] | None = None
) -> Outcomes:
    """Return the moments with a linear function of each unit's moments as its total.

    ranges: as of `adjusted`; without them, no range is known.
    """
    return Outcomes(
        cells=tuple(
            _combined_cell(one, of, None if ranges is None else ranges.get(one.cell.place))
            for one in joint.cells
        ),
        links=tuple(_combined_link(one, of) for one in joint.links),
    )


def _coefficients(
    cells: Sequence[JointCell], factors: Mapping[Place, float], columns: Sequence[Linear]
) -> list[float]:
    """Return the coefficient of each column; 0 for one that the others determine."""
    total = Linear(by_total=1.0, by_weight=0.0, by=(0.0,) * len(cells[0].sums))
    size = len(columns)
    left = [[0.0] * size for _ in range(size)]
    right, scale = [0.0] * size, [0.0] * size
    for one in cells:
        squared = factors[one.cell.place] ** 2
        for row, column in enumerate(columns):
            scale[row] += squared * _square(one, column, column)
            right[row] += squared * _centred(one, column, total)
            for other in range(row, size):
                left[row][other] += squared * _centred(one, column, columns[other])
    for row in range(size):
        for other in range(row):
            left[row][other] = left[other][row]
    return solved(left, right, scale)


def _centred(one: JointCell, left: Linear, right: Linear) -> float:
    """Return the sum over units of the product of both, each without its mean."""
    cell = one.cell
    means = _sum(one, left) / cell.count, _sum(one, right) / cell.count
    return (
        _square(one, left, right)
        - means[0] * _weighted(one, right)
        - means[1] * _weighted(one, left)
        + means[0] * means[1] * cell.count2
    )


def _sum(one: JointCell, of: Linear) -> float:
    """Return the sum of a function over the units of a cell."""
    terms = map(_product, of.by, one.sums)
    return of.by_total * one.cell.total + of.by_weight * one.cell.count + sum(terms)


def _weighted(one: JointCell, of: Linear) -> float:
    """Return the sum of function · weight."""
    terms = map(_product, of.by, one.weights)
    return of.by_total * one.cell.product + of.by_weight * one.cell.count2 + sum(terms)


def _square(one: JointCell, left: Linear, right: Linear) -> float:
    return sum(_squares(one, left, right))


def _squares(one: JointCell, left: Linear, right: Linear) -> Iterable[float]:
    """Yield the terms of the sum of the product of two functions."""
    cell = one.cell
    yield left.by_total * right.by_total * cell.total2
    yield (left.by_total * right.by_weight + left.by_weight * right.by_total) * cell.product
    yield left.by_weight * right.by_weight * cell.count2
    for row, (of_left, of_right) in enumerate(zip(left.by, right.by, strict=True)):
        yield (of_left * right.by_total + of_right * left.by_total) * one.totals[row]
        yield (of_left * right.by_weight + of_right * left.by_weight) * one.weights[row]
        yield from (
            of_left * by * value for by, value in zip(right.by, one.products[row], strict=True)
        )


def _combined_cell(one: JointCell, of: Linear, ends: tuple[float, float] | None) -> Cell:
    terms = list(_squares(one, of, of))
    return replace(
        one.cell,
        total=_sum(one, of),
        total2=sum(terms),
        product=_weighted(one, of),
        least=None if ends is None else ends[0],
        most=None if ends is None else ends[1],
        cancelled=sum(map(abs, terms)),
    )


def _combined_link(one: JointLink, of: Linear) -> SharedUnits:
    link = one.link
    total, weight, by = of.by_total, of.by_weight, of.by
    total_count = total * link.total_count + weight * link.counts
    total_count += sum(map(_product, by, one.one_weights))
    count_total = total * link.count_total + weight * link.counts
    count_total += sum(map(_product, by, one.other_weights))
    totals = total * (total * link.totals + weight * (link.total_count + link.count_total))
    totals += weight * weight * link.counts
    for row, factor in enumerate(by):
        totals += factor * total * (one.one_totals[row] + one.other_totals[row])
        totals += factor * weight * (one.one_weights[row] + one.other_weights[row])
        totals += factor * sum(map(_product, by, one.products[row]))
    return replace(link, totals=totals, total_count=total_count, count_total=count_total)


def _product(one: float, other: float) -> float:
    return one * other
