"""A simulated crowd: users with requests that resemble each other, a few of whom send most."""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from strowger_gateway.gateway.statistics.outcomes import Cell, Outcomes, SharedUnits
from tests.gateway.statistics.fleet import arriving, cap_of

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
    sent = [visit.count * mask for (visit, _), mask in zip(places, masks, strict=True)]
    highest: dict[int, float] = {}
    for (visit, _), mask in zip(places, masks, strict=True):
        cap = min(highest.get(visit.epoch, np.inf), cap_of(visit.count[mask]))
        highest[visit.epoch] = cap
    counts = np.stack(
        [
            np.minimum(own, highest[visit.epoch])
            for (visit, _), own in zip(places, sent, strict=True)
        ]
    )
    means = [visit.total / np.maximum(visit.count, 1) for visit, _ in places]
    totals = counts * np.stack(means)
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
            observations=float(sent[at].sum()),
            singles=float((counts[at] ** 2 / np.maximum(sent[at], 1)).sum()),
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
    moments = arriving(treated, count, total, looks)
    return [
        Outcomes(
            cells=tuple(
                Cell(
                    epoch=1,
                    variant=NAMES[arm],
                    units=int(sums[0]),
                    count=float(sums[1]),
                    total=float(sums[2]),
                    count2=float(sums[3]),
                    total2=float(sums[4]),
                    product=float(sums[5]),
                    observations=float(sums[6]),
                    singles=float(sums[7]),
                    least=float(moments.least[arm, 0, at]),
                    most=float(moments.most[arm, 0, at]),
                )
                for arm, sums in enumerate(moments.sums[:, :, 0, at].T)
            )
        )
        for at in range(len(looks))
    ]
