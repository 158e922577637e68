"""Units that weigh less than what they sent (`statistics/weights.py`), in a report."""

from collections.abc import Iterator, Sequence

from msgspec import Struct

from strowger_gateway.gateway.statistics.outcomes import Cell
from strowger_gateway.gateway.storage.sql.base import Store
from strowger_gateway.gateway.storage.sql.experiments.busy_units import busiest

NAMED = 3
"""Units that a report names for each metric, variant and epoch."""

HALVED = 2.0
"""How many times its weight a unit has sent before a note names it: most caps change little."""


class CappedUnit(Struct, frozen=True, kw_only=True):
    """A unit's observations of a metric in one epoch, and as how many of them it counts."""

    epoch: int
    unit: str
    observations: int
    weight: float

    @property
    def words(self) -> str:
        return f"unit {self.unit} sent {self.observations:,} and counts as {self.weight:,.3g}"


def capped_units(
    store: Store, experiment: str, metric: str, cells: Sequence[Cell]
) -> tuple[CappedUnit, ...]:
    """Return the busiest capped units of a variant's cells, NAMED for each. Blocks."""
    found: list[CappedUnit] = []
    for cell in cells:
        if not cell.capped:
            continue
        with store.database.reading() as session:
            rows = busiest(session, experiment, metric, cell.epoch, cell.variant, NAMED)
        found += [
            CappedUnit(
                epoch=cell.epoch,
                unit=one.unit,
                observations=one.observations,
                weight=cell.highest,
            )
            for one in rows
            if one.observations > cell.highest
        ]
    return tuple(found)


def capped_notes(
    metric: str, noun: str, variant: str, units: Sequence[CappedUnit]
) -> Iterator[str]:
    """Yield a note if the weight of a unit is far from what it sent."""
    named = [one for one in units if one.observations >= HALVED * one.weight]
    if named:
        words = "; ".join(one.words for one in named[:NAMED])
        yield (f"{metric}: no unit has more than 1/50 of {variant}'s {noun}, in any epoch: {words}")
