"""The moments of outcomes that a report needs, without storing every request.

The store keeps one row for each unit, epoch, variant and metric: how many observations and their
sum. A request adds to its unit's row, so rows are exact however late a unit's requests arrive. A
report reads moments of the rows: within a cell (an epoch and variant) and, for units that came in
several cells, between cells. SQL computes both (docs/experiments-statistics.md), or `summarised`.
"""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from itertools import combinations
from typing import Literal

import msgspec
from msgspec import Struct

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

    count:   observations. total: their sum.
    count2:  the sum of count². total2: of total². product: of count · total.
    least, most: of the units' own means, total / count; `None` if not computed.
    observations: also if every unit counts once (`per="unit"`); 0: as many as `count`.
    heaviest: the observations of the unit with the most; 0 if not computed.
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

    @property
    def observed(self) -> float:
        return self.observations or self.count

    @property
    def place(self) -> Place:
        return self.epoch, self.variant

    @property
    def mean(self) -> float:
        """The mean per observation."""
        return self.total / self.count


class SharedUnits(Struct, frozen=True, kw_only=True):
    """The units that two cells share: sums over those units of products across the cells.

    one, other:  the cells, one before other; each pair once, pairs without shared units omitted.
    counts:      count in one · count in other. totals: total · total.
    total_count: total in one · count in other. count_total: count in one · total in other.
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


def summarised(rows: Iterable[UnitRow], *, per: Per = "observation") -> Outcomes:
    """Compute the moments of rows, which need not be summed or sorted.

    per: "observation" computes means over all observations, weighting each unit by the number it
         sent; "unit" computes means of the units' own means, weighting all units the same: the
         choice if a few units send most requests.
    """
    by_place: defaultdict[Place, list[UnitRow]] = defaultdict(list)
    sent: defaultdict[Place, list[int]] = defaultdict(list)
    by_unit: defaultdict[str, list[UnitRow]] = defaultdict(list)
    for row in summed(rows):
        sent[row.epoch, row.variant].append(row.count)
        if per == "unit":
            row = msgspec.structs.replace(row, count=1, total=row.total / row.count)
        by_place[row.epoch, row.variant].append(row)
        by_unit[row.unit].append(row)
    pairs: defaultdict[tuple[Place, Place], list[tuple[UnitRow, UnitRow]]] = defaultdict(list)
    for found in by_unit.values():
        placed = sorted(found, key=lambda row: (row.epoch, row.variant))
        for one, other in combinations(placed, 2):
            pairs[(one.epoch, one.variant), (other.epoch, other.variant)].append((one, other))
    return Outcomes(
        cells=tuple(_cell(place, by_place[place], sent[place]) for place in sorted(by_place)),
        links=tuple(_link(places, pairs[places]) for places in sorted(pairs)),
    )


def merged(parts: Sequence[Outcomes]) -> Outcomes:
    """Merge the moments of parts that have no unit in common."""
    cells: dict[Place, Cell] = {}
    links: dict[tuple[Place, Place], SharedUnits] = {}
    for part in parts:
        for cell in part.cells:
            seen = cells.get(cell.place)
            cells[cell.place] = cell if seen is None else _both_cells(seen, cell)
        for link in part.links:
            known = links.get((link.one, link.other))
            links[link.one, link.other] = link if known is None else _both_links(known, link)
    return Outcomes(
        cells=tuple(cells[place] for place in sorted(cells)),
        links=tuple(links[places] for places in sorted(links)),
    )


def _cell(place: Place, rows: list[UnitRow], sent: list[int]) -> Cell:
    """Compute a cell. sent: the observations of each unit."""
    return Cell(
        epoch=place[0],
        variant=place[1],
        units=len(rows),
        count=sum(row.count for row in rows),
        total=sum(row.total for row in rows),
        count2=sum(row.count**2 for row in rows),
        total2=sum(row.total**2 for row in rows),
        product=sum(row.count * row.total for row in rows),
        least=min(row.total / row.count for row in rows),
        most=max(row.total / row.count for row in rows),
        observations=sum(sent),
        heaviest=max(sent),
    )


def _link(places: tuple[Place, Place], pairs: list[tuple[UnitRow, UnitRow]]) -> SharedUnits:
    return SharedUnits(
        one=places[0],
        other=places[1],
        units=len(pairs),
        counts=sum(one.count * other.count for one, other in pairs),
        totals=sum(one.total * other.total for one, other in pairs),
        total_count=sum(one.total * other.count for one, other in pairs),
        count_total=sum(one.count * other.total for one, other in pairs),
    )


def _both_cells(one: Cell, other: Cell) -> Cell:
    return Cell(
        epoch=one.epoch,
        variant=one.variant,
        units=one.units + other.units,
        count=one.count + other.count,
        total=one.total + other.total,
        count2=one.count2 + other.count2,
        total2=one.total2 + other.total2,
        product=one.product + other.product,
        least=None if one.least is None or other.least is None else min(one.least, other.least),
        most=None if one.most is None or other.most is None else max(one.most, other.most),
        observations=one.observed + other.observed,
        heaviest=max(one.heaviest, other.heaviest),
    )


def _both_links(one: SharedUnits, other: SharedUnits) -> SharedUnits:
    return SharedUnits(
        one=one.one,
        other=one.other,
        units=one.units + other.units,
        counts=one.counts + other.counts,
        totals=one.totals + other.totals,
        total_count=one.total_count + other.total_count,
        count_total=one.count_total + other.count_total,
    )
