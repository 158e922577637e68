"""Store what experiments fixed before their data, each time it changes."""

from collections.abc import Sequence

from msgspec import Struct

from strowger_gateway.gateway.storage.sql.database import Session

_ALL = """SELECT time, requests, plan FROM experiment_plans
    WHERE experiment = ? ORDER BY number"""
_ADD = """INSERT INTO experiment_plans (experiment, number, time, requests, plan)
    VALUES (?, ?, ?, (SELECT COALESCE(SUM(requests), 0) FROM experiment_requests
    WHERE experiment = ? AND variant <> ''), ?)"""


class StoredPlan(Struct, frozen=True, kw_only=True):
    """plan: JSON. requests: that were enrolled before. time: Unix seconds."""

    time: float
    requests: int
    plan: str


def plans(session: Session, experiment: str) -> Sequence[StoredPlan]:
    """Return the plans, the first one first."""
    rows = session.rows(tuple[float, int, str], _ALL, experiment)
    return [StoredPlan(time=at, requests=requests, plan=plan) for at, requests, plan in rows]


def add_plan(session: Session, experiment: str, plan: str, now: float) -> None:
    """Add a plan unless it is the last one."""
    known = plans(session, experiment)
    if not known or known[-1].plan != plan:
        session.run(_ADD, experiment, len(known) + 1, now, experiment, plan)
