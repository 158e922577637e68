"""The moments of outcomes that a report needs, without storing every request.

The store keeps one row for each unit, epoch, variant and metric: how many observations and their
sum. A request adds to its unit's row, so rows are exact however late a unit's requests arrive. A
report reads moments of the rows: within a cell (an epoch and variant) and, for units that came in
several cells, between cells. SQL computes both (docs/experiments-statistics.md), or `summarised`.

A unit's weight is its observations, up to the cap of its epoch (`weights`). Its total is then that
weight times its own mean.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from itertools import combinations
from math import inf
from typing import Literal

import msgspec
from msgspec import Struct

from strowger_gateway.gateway.statistics.weights import Sent, caps

Place = tuple[int, str]
"""Epoch and variant."""

Per = Literal["observation", "unit"]


class UnitRow(Struct, frozen=True, kw_only=True):
    """One unit's observations of one metric in one epoch.

    unit:    the assigned unit; in the store a hash.
    variant: as assigned, whichever backend answered (intention to treat).
    count:   observations, at least 1: requests, or votes for a feedback metric.
    total:   their sum, each on the metric's scale (`Metric.scaled`).
    """

    unit: str
    epoch: int
    variant: str
    count: int
    total: float


class Cell(Struct, frozen=True, kw_only=True):
    """The units of one variant in one epoch: sums over units with at least one observation.

    count:   the units' weights: their observations, less where capped, or 1 each (`per="unit"`).
    total:   the sum of weight · the unit's own mean.
    count2:  the sum of weight². total2: of total². product: of weight · total.
    least, most: of the units' own means; `None` if not computed.
    observations: whatever they weigh; 0: as many as `count`.
    heaviest: the observations of the unit with the most; 0 if not computed.
    capped:  units that weigh less than their observations. highest: the greatest weight of a unit.
    singles: the sum of weight² / observations; 0: that of uncapped units.
    cancelled: the sum of the sizes of the terms that `total2` is a sum of, if it is.
    """

    epoch: int
    variant: str
    units: int
    count: float
    total: float
    count2: float
    total2: float
    product: float
    least: float | None = None
    most: float | None = None
    observations: float = 0.0
    heaviest: float = 0.0
    capped: int = 0
    singles: float = 0.0
    highest: float = 0.0
    cancelled: float = 0.0

    @property
    def observed(self) -> float:
        return self.observations or self.count

    @property
    def single(self) -> float:
        """The mean squared weight of a single observation; 1 if no unit is capped."""
        return self.singles / self.observed if self.singles else 1.0

    @property
    def place(self) -> Place:
        return self.epoch, self.variant

    @property
    def mean(self) -> float:
        """The weighted mean of the units' own means: per observation if no unit is capped."""
        return self.total / self.count


class SharedUnits(Struct, frozen=True, kw_only=True):
    """The units that two cells share: sums over those units of products across the cells.

    one, other:  the cells, one before other; each pair once, pairs without shared units omitted.
    counts:      weight in one · weight in other. totals: total · total.
    total_count: total in one · weight in other. count_total: weight in one · total in other.
    """

    one: Place
    other: Place
    units: int
    counts: float
    totals: float
    total_count: float
    count_total: float


class Outcomes(Struct, frozen=True, kw_only=True):
    """All moments of one metric in one experiment."""

    cells: tuple[Cell, ...] = ()
    links: tuple[SharedUnits, ...] = ()

    def after(self, epoch: int) -> "Outcomes":
        """Return the moments of later epochs only."""
        return Outcomes(
            cells=tuple(cell for cell in self.cells if cell.epoch > epoch),
            links=tuple(link for link in self.links if min(link.one, link.other)[0] > epoch),
        )


def summed(rows: Iterable[UnitRow]) -> list[UnitRow]:
    """Add up the rows of several workers: one row per unit, epoch and variant."""
    found: dict[tuple[str, Place], UnitRow] = {}
    for row in rows:
        key = (row.unit, (row.epoch, row.variant))
        seen = found.get(key)
        if seen is not None:
            row = msgspec.structs.replace(
                seen, count=seen.count + row.count, total=seen.total + row.total
            )
        found[key] = row
    return list(found.values())


class _Part(Struct, frozen=True):
    """A unit's part in a cell. total: weight · its own mean. sent: observations."""

    place: Place
    weight: float
    total: float
    sent: int


def summarised(rows: Iterable[UnitRow], *, per: Per = "observation") -> Outcomes:
    """Compute the moments of rows, which need not be summed or sorted.

    per: "observation" computes means over all observations, weighting each unit by the number it
         sent, up to a cap; "unit" computes means of the units' own means, weighting all units the
         same: the choice if a few units send most requests.
    """
    known = summed(rows)
    highest: Mapping[int, float] = caps_of(known) if per == "observation" else {}
    by_place: defaultdict[Place, list[_Part]] = defaultdict(list)
    by_unit: defaultdict[str, list[_Part]] = defaultdict(list)
    for row in known:
        part = _part(row, 1 if per == "unit" else highest.get(row.epoch, inf))
        by_place[part.place].append(part)
        by_unit[row.unit].append(part)
    pairs: defaultdict[tuple[Place, Place], list[tuple[_Part, _Part]]] = defaultdict(list)
    for found in by_unit.values():
        for one, other in combinations(sorted(found, key=lambda part: part.place), 2):
            pairs[one.place, other.place].append((one, other))
    return Outcomes(
        cells=tuple(_cell(place, by_place[place]) for place in sorted(by_place)),
        links=tuple(_link(places, pairs[places]) for places in sorted(pairs)),
    )


def caps_of(rows: Iterable[UnitRow]) -> Mapping[int, float]:
    """Return the greatest weight of a unit in each epoch that needs a cap. rows: summed."""
    sent: defaultdict[Place, list[int]] = defaultdict(list)
    for row in rows:
        sent[row.epoch, row.variant].append(row.count)
    return caps(
        Sent(
            epoch=epoch,
            units=len(counts),
            total=sum(counts),
            least=min(counts),
            greatest=sorted(counts, reverse=True),
        )
        for (epoch, _), counts in sent.items()
    )


def _part(row: UnitRow, cap: float) -> _Part:
    place = row.epoch, row.variant
    if row.count <= cap:
        return _Part(place, row.count, row.total, row.count)
    return _Part(place, cap, cap * (row.total / row.count), row.count)


def _cell(place: Place, parts: list[_Part]) -> Cell:
    return Cell(
        epoch=place[0],
        variant=place[1],
        units=len(parts),
        count=sum(part.weight for part in parts),
        total=sum(part.total for part in parts),
        count2=sum(part.weight**2 for part in parts),
        total2=sum(part.total**2 for part in parts),
        product=sum(part.weight * part.total for part in parts),
        least=min(part.total / part.weight for part in parts),
        most=max(part.total / part.weight for part in parts),
        observations=sum(part.sent for part in parts),
        heaviest=max(part.sent for part in parts),
        capped=sum(part.weight < part.sent for part in parts),
        singles=sum(part.weight * part.weight / part.sent for part in parts),
        highest=max(part.weight for part in parts),
    )


def _link(places: tuple[Place, Place], pairs: list[tuple[_Part, _Part]]) -> SharedUnits:
    return SharedUnits(
        one=places[0],
        other=places[1],
        units=len(pairs),
        counts=sum(one.weight * other.weight for one, other in pairs),
        totals=sum(one.total * other.total for one, other in pairs),
        total_count=sum(one.total * other.weight for one, other in pairs),
        count_total=sum(one.weight * other.total for one, other in pairs),
    )
