"""Query the votes on an experiment: the metrics with votes, and the outliers."""

from collections.abc import Mapping, Sequence

from strowger_gateway.gateway.storage.sql.database import Session
from strowger_gateway.gateway.storage.sql.experiments.exclusions import IN
from strowger_gateway.gateway.storage.sql.experiments.votes import Vote, Votes

_OF = f"""FROM feedback f WHERE experiment = ? AND joined = 1 AND unit <> ''
    AND value IS NOT NULL AND {IN.format("f")}"""
_METRICS = f"""SELECT metric, MIN(boolean), MIN(value), MAX(value), COUNT(given) {_OF}
    GROUP BY metric ORDER BY metric"""
_MEAN = f"SELECT AVG(value) {_OF} AND metric = ?"
_FARTHEST = f"""SELECT request_id, key, time, epoch, variant, unit, value, given, boolean {_OF}
    AND metric = ? AND (value < ? OR value > ?)
    ORDER BY ABS(value - ?) DESC, time DESC, request_id LIMIT ?"""
_EVERY = 1.0, 0.0
"""Bounds that every value is outside of."""


def metrics(session: Session, experiment: str) -> Mapping[str, Votes]:
    rows = session.rows(tuple[str, bool, float, float, int], _METRICS, experiment)
    return {
        metric: Votes(boolean=boolean, least=least, greatest=greatest, capped=capped)
        for metric, boolean, least, greatest, capped in rows
    }


def farthest(
    session: Session,
    experiment: str,
    metric: str,
    limit: int,
    outside: tuple[float, float] | None,
) -> Sequence[Vote]:
    """See `Store.votes`."""
    ((mean,),) = session.rows(tuple[float | None], _MEAN, experiment, metric)
    low, high = outside or _EVERY
    rows = session.rows(
        tuple[str, str, float, int, str, str, float, float | None, bool],
        _FARTHEST,
        experiment,
        metric,
        low,
        high,
        mean or 0.0,
        limit,
    )
    return [
        Vote(
            request_id=row[0],
            key=row[1],
            time=row[2],
            epoch=row[3],
            variant=row[4],
            unit=row[5],
            value=row[6],
            given=row[7],
            boolean=row[8],
        )
        for row in rows
    ]
