"""The moments of rows and their covariates, summed row by row: what the store's SQL computes."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from itertools import combinations
from math import inf

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from strowger_gateway.gateway.statistics.adjustment import (
    Adjusted,
    Joint,
    JointCell,
    JointLink,
    adjusted,
    compared,
    fit,
)
from strowger_gateway.gateway.statistics.outcomes import (
    Outcomes,
    Place,
    UnitRow,
    caps_of,
    summarised,
)

Floats = npt.NDArray[np.float64]


class Covaried(Struct, frozen=True):
    """A row, and its covariates by name; without those that are not known. cap: of its weight."""

    row: UnitRow
    values: Mapping[str, float]
    cap: float = inf

    @property
    def weight(self) -> float:
        return min(float(self.row.count), self.cap)

    @property
    def total(self) -> float:
        """The weight times the unit's own mean."""
        return self.weight * self.row.total / self.row.count

    @property
    def place(self) -> Place:
        return self.row.epoch, self.row.variant

    def regressors(self, names: Sequence[str]) -> Floats:
        weight = self.weight
        known = [name in self.values for name in names]
        return np.array(
            [
                one
                for name, has in zip(names, known, strict=True)
                for one in (weight * self.values.get(name, 0.0), weight * has)
            ]
        )


def joint_of(given: Sequence[Covaried], names: Sequence[str]) -> Joint:
    caps = caps_of([one.row for one in given])
    rows = [Covaried(one.row, one.values, caps.get(one.row.epoch, inf)) for one in given]
    raw = summarised([one.row for one in rows])
    by_place: defaultdict[Place, list[Covaried]] = defaultdict(list)
    by_unit: defaultdict[str, list[Covaried]] = defaultdict(list)
    for one in rows:
        by_place[one.place].append(one)
        by_unit[one.row.unit].append(one)
    pairs: defaultdict[tuple[Place, Place], list[tuple[Covaried, Covaried]]] = defaultdict(list)
    for found in by_unit.values():
        for one, other in combinations(sorted(found, key=lambda row: row.place), 2):
            pairs[one.place, other.place].append((one, other))
    return Joint(
        covariates=tuple(names),
        cells=tuple(_cell(raw, place, by_place[place], names) for place in sorted(by_place)),
        links=tuple(_link(raw, places, pairs[places], names) for places in sorted(pairs)),
    )


def adjusted_rows(rows: Sequence[Covaried], names: Sequence[str]) -> Adjusted:
    """Fit and adjust, as the gateway does with its store."""
    joint = joint_of(rows, names)
    factors = compared(joint)
    fitted = fit(joint, factors)
    means: defaultdict[Place, list[float]] = defaultdict(list)
    for one in rows:
        off = sum(
            known.theta * (one.values[known.covariate] - known.mean)
            + known.missing * (1 - known.share)
            if known.covariate in one.values
            else -known.missing * known.share
            for known in fitted
        )
        means[one.place].append(one.row.total / one.row.count - off)
    return adjusted(joint, fitted, factors, {at: (min(own), max(own)) for at, own in means.items()})


def _cell(raw: Outcomes, place: Place, rows: Sequence[Covaried], names: Sequence[str]) -> JointCell:
    (cell,) = [one for one in raw.cells if one.place == place]
    r = np.array([one.regressors(names) for one in rows])
    weights = np.array([one.weight for one in rows])
    totals = np.array([one.total for one in rows])
    values = [[one.values[name] for one in rows if name in one.values] for name in names]
    return JointCell(
        cell=cell,
        known=tuple(map(len, values)),
        ends=tuple((min(own), max(own)) if own else None for own in values),
        sums=_vector(r.sum(axis=0)),
        products=tuple(map(_vector, np.einsum("ia,ib->ab", r, r))),
        weights=_vector(np.einsum("ia,i->a", r, weights)),
        totals=_vector(np.einsum("ia,i->a", r, totals)),
    )


def _link(
    raw: Outcomes,
    places: tuple[Place, Place],
    pairs: Sequence[tuple[Covaried, Covaried]],
    names: Sequence[str],
) -> JointLink:
    (link,) = [one for one in raw.links if (one.one, one.other) == places]
    one, other = (np.array([pair[end].regressors(names) for pair in pairs]) for end in (0, 1))
    weights = [np.array([pair[end].weight for pair in pairs]) for end in (0, 1)]
    totals = [np.array([pair[end].total for pair in pairs]) for end in (0, 1)]
    return JointLink(
        link=link,
        products=tuple(map(_vector, np.einsum("ia,ib->ab", one, other))),
        one_weights=_vector(np.einsum("ia,i->a", one, weights[1])),
        one_totals=_vector(np.einsum("ia,i->a", one, totals[1])),
        other_weights=_vector(np.einsum("i,ia->a", weights[0], other)),
        other_totals=_vector(np.einsum("i,ia->a", totals[0], other)),
    )


def _vector(values: Floats) -> tuple[float, ...]:
    return tuple(values.tolist())
