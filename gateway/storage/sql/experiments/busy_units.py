"""Query the units with the most observations of a metric."""

from collections.abc import Sequence

from msgspec import Struct

from strowger_gateway.gateway.storage.sql.database import Session
from strowger_gateway.gateway.storage.sql.experiments.exclusions import IN

_BUSIEST = f"""SELECT unit, count FROM experiment_units a WHERE experiment = ? AND metric = ?
    AND epoch = ? AND variant = ? AND {IN.format("a")} ORDER BY count DESC, unit LIMIT ?"""


class BusyUnit(Struct, frozen=True, kw_only=True):
    """unit: a keyed hash. observations: of one metric in one epoch."""

    unit: str
    observations: int


def busiest(
    session: Session, experiment: str, metric: str, epoch: int, variant: str, limit: int
) -> Sequence[BusyUnit]:
    """Return the units with the most observations in an epoch and variant, most first."""
    rows = session.rows(tuple[str, int], _BUSIEST, experiment, metric, epoch, variant, limit)
    return [BusyUnit(unit=unit, observations=count) for unit, count in rows]
