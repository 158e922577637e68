"""The weights of units in a mean: what each has observed, up to a cap.

A unit that sends most of a variant's observations would decide its mean alone, and the effective
number of units (see `variance.effective_units`), which is at least 1 / (the largest share), would
fall to 1: one busy user, or one who wants to, could switch off every interval. With no share above
1/50 it is at least 50; fewer units than 50 weigh the same, so that it is their number. 1/25 would
be enough for an interval, but not for its level (docs/experiments-statistics.md).

A cap per variant would bias a comparison where busy units differ from others: a small arm would
weigh them less than a large one does. So one cap holds for all variants of an epoch, the least that
any of them needs.
"""

from collections.abc import Iterable, Mapping, Sequence
from math import inf

from msgspec import Struct

LARGEST_SHARE = 1 / 50
"""The largest share of a unit in its cell's sum of weights."""

MOST_CAPPED = 49
"""The units of a cell that may have to be capped, at most: 50 of the largest share are all."""

FEWEST_UNITS = 10
"""Minimum units in each arm for an epoch to count; with fewer, its means are too imprecise."""


class Sent(Struct, frozen=True, kw_only=True):
    """The observations of a cell's units.

    total:    of all units. least: of the unit with the fewest.
    greatest: the largest numbers of a unit, in descending order; at least MOST_CAPPED + 1 of them,
              or all. One is enough if it is at most LARGEST_SHARE of the total.
    """

    epoch: int
    units: int
    total: float
    least: float
    greatest: Sequence[float]

    @property
    def even(self) -> bool:
        """True if no unit has to be capped, which `greatest[0]` is enough to know."""
        top = self.greatest[0]
        return top <= (self.least if self.units <= MOST_CAPPED else self.total * LARGEST_SHARE)


def caps(cells: Iterable[Sent]) -> Mapping[int, float]:
    """Return the cap of each epoch that needs one: the greatest weight of a unit in it."""
    found: dict[int, float] = {}
    for cell in cells:
        if cell.units >= FEWEST_UNITS and not cell.even:
            found[cell.epoch] = min(found.get(cell.epoch, inf), cap_of(cell))
    return found


def cap_of(cell: Sent) -> float:
    """Return the greatest C with min(n, C) <= 1/50 · sum min(n, C) for each unit of n observations.

    With k units above it, C = (k C + the others' sum) / 50. With fewer than 50 units no cap is low
    enough, and all weigh the same: as much as the unit with the fewest observations.
    """
    if cell.units <= MOST_CAPPED:
        return cell.least
    rest = cell.total
    cap = inf
    for capped in range(MOST_CAPPED + 1):
        cap = rest / (MOST_CAPPED + 1 - capped)
        if cell.greatest[capped] <= cap:
            break
        rest -= cell.greatest[capped]
    return cap
