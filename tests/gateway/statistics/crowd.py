"""A simulated crowd: users with requests that resemble each other, a few of whom send most."""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from strowger_gateway.gateway.statistics.outcomes import Cell, Outcomes, SharedUnits

Floats = npt.NDArray[np.float64]
Arms = npt.NDArray[np.bool_]
NAMES = ("control", "treatment")


class Visit(Struct, frozen=True, kw_only=True):
    """One epoch: by unit, whether it was in treatment, its observations, and their sum."""

    epoch: int
    treated: Arms
    count: Floats
    total: Floats


def pareto_counts(rng: np.random.Generator, units: int, shape: float) -> Floats:
    """Requests by user, at least one. A shape of 2 or less has no finite variance."""
    return np.floor(rng.pareto(shape, units) + 1.0)


def yes_votes(
    rng: np.random.Generator,
    counts: Floats,
    rates: npt.NDArray[np.floating] | float,
    likeness: float,
) -> Floats:
    """By user: how many of its requests say yes, its own rate drawn around `rates`.

    likeness: the correlation of two requests of one user, in (0, 1).
    """
    size = 1 / likeness - 1
    own = rng.beta(np.asarray(rates) * size, (1 - np.asarray(rates)) * size, len(counts))
    return rng.binomial(counts.astype(np.int64), own).astype(np.float64)


def outcomes_of(visits: Sequence[Visit]) -> Outcomes:
    """The moments, by array sums; units are the same in all visits, count 0 where absent."""
    places = [(visit, arm) for visit in visits for arm in (False, True)]
    masks = [(visit.treated == arm) & (visit.count > 0) for visit, arm in places]
    counts = np.stack([visit.count * mask for (visit, _), mask in zip(places, masks, strict=True)])
    totals = np.stack([visit.total * mask for (visit, _), mask in zip(places, masks, strict=True)])
    # einsum and not a matrix product, whose threads would fight over two cores.
    cc, tt, ct = (
        np.einsum("an,bn->ab", one, other)
        for one, other in ((counts, counts), (totals, totals), (counts, totals))
    )
    where = [(visit.epoch, NAMES[arm]) for visit, arm in places]
    cells = tuple(
        Cell(
            epoch=where[at][0],
            variant=where[at][1],
            units=int(masks[at].sum()),
            count=float(counts[at].sum()),
            total=float(totals[at].sum()),
            count2=float(cc[at, at]),
            total2=float(tt[at, at]),
            product=float(ct[at, at]),
        )
        for at in range(len(places))
        if masks[at].any()
    )
    links = tuple(
        SharedUnits(
            one=where[one],
            other=where[other],
            units=int((masks[one] & masks[other]).sum()),
            counts=float(cc[one, other]),
            totals=float(tt[one, other]),
            total_count=float(ct[other, one]),
            count_total=float(ct[one, other]),
        )
        for one in range(len(places))
        for other in range(one + 1, len(places))
        if cc[one, other]
    )
    return Outcomes(cells=cells, links=links)


def as_units_arrive(
    treated: Arms, count: Floats, total: Floats, looks: npt.NDArray[np.int64]
) -> list[Outcomes]:
    """The moments of the first units, whole, at each look (a number of units)."""
    columns = np.stack([np.ones_like(count), count, total, count**2, total**2, count * total])
    by_arm = [np.cumsum(columns * (treated == arm), axis=1)[:, looks - 1] for arm in (False, True)]
    means = total / count
    least, most = (
        [
            extreme.accumulate(np.where(treated == arm, means, none))[looks - 1]
            for arm in (False, True)
        ]
        for extreme, none in ((np.minimum, np.inf), (np.maximum, -np.inf))
    )
    return [
        Outcomes(
            cells=tuple(
                Cell(
                    epoch=1,
                    variant=NAMES[arm],
                    units=int(sums[0, at]),
                    count=float(sums[1, at]),
                    total=float(sums[2, at]),
                    count2=float(sums[3, at]),
                    total2=float(sums[4, at]),
                    product=float(sums[5, at]),
                    least=float(least[arm][at]),
                    most=float(most[arm][at]),
                )
                for arm, sums in enumerate(by_arm)
            )
        )
        for at in range(len(looks))
    ]
