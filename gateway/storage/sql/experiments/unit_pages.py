"""Query the rows behind reports in pages, so that an export can have any size."""

from collections.abc import Generator, Sequence

from msgspec import Struct

from strowger_gateway.gateway.storage.sql.database import Session
from strowger_gateway.gateway.storage.sql.experiments.exclusions import IN

PAGE = 10_000
"""Rows in memory at a time."""

_AFTER = f"""SELECT metric, unit, epoch, variant, count, total, least, most,
    CASE WHEN {IN.format("a")} THEN 0 ELSE 1 END FROM experiment_units a
    WHERE experiment = ? AND (metric, unit, epoch, variant) > (?, ?, ?, ?)
    ORDER BY metric, unit, epoch, variant LIMIT ?"""


class UnitTotal(Struct, frozen=True, kw_only=True):
    """One unit's observations of one metric in one epoch and variant.

    unit:  a keyed hash, different for each experiment. count: observations, at least 1.
    total: their sum on the metric's scale: of times the sum of natural logarithms of ms.
    least, most: the least and the greatest of them, on the same scale.
    excluded: 1 if an operator has excluded the unit or a key that sent for it, else 0; reports then
        leave it out.
    """

    metric: str
    unit: str
    epoch: int
    variant: str
    count: int
    total: float
    least: float
    most: float
    excluded: int


def pages(session: Session, experiment: str) -> Generator[Sequence[UnitTotal]]:
    """Yield all rows of an experiment, sorted by metric, unit, epoch and variant, `PAGE` at a time.

    Each page is found by the table's key, so its cost does not depend on its position.
    """
    last: tuple[str, str, int, str] = ("", "", 0, "")
    while True:
        kind = tuple[str, str, int, str, int, float, float, float, int]
        found = session.rows(kind, _AFTER, experiment, *last, PAGE)
        if found:
            yield [
                UnitTotal(
                    metric=row[0],
                    unit=row[1],
                    epoch=row[2],
                    variant=row[3],
                    count=row[4],
                    total=row[5],
                    least=row[6],
                    most=row[7],
                    excluded=row[8],
                )
                for row in found
            ]
            last = found[-1][:4]
        if len(found) < PAGE:
            return
