"""Store the history of confidence intervals: some points for each experiment and metric."""

from collections.abc import Mapping

import msgspec

from strowger_gateway.gateway.statistics.interval_history import (
    Interval,
    Point,
    needs_point,
    redundant,
)
from strowger_gateway.gateway.storage.sql.database import Session

_intervals: msgspec.json.Decoder[Mapping[str, Interval]] = msgspec.json.Decoder(
    Mapping[str, Interval]
)
_PLACE = "experiment = ? AND metric = ?"


def points(session: Session, experiment: str, metric: str) -> tuple[Point, ...]:
    """Return the points in order of time."""
    sql = f"SELECT time, intervals FROM experiment_courses WHERE {_PLACE} ORDER BY time"
    rows = session.rows(tuple[float, str], sql, experiment, metric)
    return tuple(Point(time=at, intervals=_intervals.decode(data)) for at, data in rows)


def add_point(session: Session, experiment: str, metric: str, point: Point) -> bool:
    """Add a point if the history needs one and drop redundant ones; return whether it was added."""
    sql = f"SELECT time FROM experiment_courses WHERE {_PLACE} ORDER BY time"
    times = [at for (at,) in session.rows(tuple[float], sql, experiment, metric)]
    if not needs_point(times, point.time):
        return False
    session.many(
        f"DELETE FROM experiment_courses WHERE {_PLACE} AND time = ?",
        [(experiment, metric, at) for at in redundant(times, point.time)],
    )
    data = msgspec.json.encode(point.intervals).decode()
    sql = "INSERT INTO experiment_courses (experiment, metric, time, intervals) VALUES (?, ?, ?, ?)"
    session.run(sql, experiment, metric, point.time, data)
    return True
