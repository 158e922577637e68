"""Query how the requests, units and votes of an experiment are spread over API keys."""

from collections.abc import Sequence
from typing import Final

from msgspec import Struct

from strowger_gateway.gateway.storage.sql.database import Session
from strowger_gateway.gateway.storage.sql.experiments.exclusions import IN

_SENT: Final = f"""SELECT variant, key, CAST(SUM(requests) AS BIGINT), COUNT(*)
    FROM experiment_unit_keys k WHERE experiment = ? AND {IN.format("k")}
    GROUP BY variant, key ORDER BY variant, key"""
_VOTED: Final = f"""SELECT metric, variant, key, COUNT(*), COUNT(DISTINCT unit)
    FROM feedback f WHERE experiment = ? AND joined = 1 AND unit <> '' AND value IS NOT NULL
    AND {IN.format("f")} GROUP BY metric, variant, key ORDER BY metric, variant, key"""


class KeySent(Struct, frozen=True, kw_only=True):
    """What one key sent of a variant. metric: "" for requests, else votes on it.

    count: requests or votes. units: that they are of.
    """

    metric: str
    variant: str
    key: str
    count: int
    units: int


def sent_by_key(session: Session, experiment: str) -> Sequence[KeySent]:
    """Return the requests and votes by variant and key, without excluded units."""
    found = [("", *row) for row in session.rows(tuple[str, str, int, int], _SENT, experiment)]
    found += session.rows(tuple[str, str, str, int, int], _VOTED, experiment)
    return [
        KeySent(metric=metric, variant=variant, key=key, count=count, units=units)
        for metric, variant, key, count, units in found
    ]
