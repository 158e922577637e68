"""Votes that come late: after `votes_until` of their experiment, or after a pause."""

from collections.abc import Sequence
from typing import Final

from msgspec import Struct

from strowger_gateway.gateway.storage.sql.database import Session, marks, pieces
from strowger_gateway.gateway.storage.sql.experiments.exclusions import IN
from strowger_gateway.gateway.storage.sql.rows import FeedbackRow

_UNTIL: Final = """SELECT r.request_id, r.time + d.votes_until FROM requests r
    JOIN experiment_definitions d ON d.experiment = r.experiment
    WHERE d.votes_until IS NOT NULL AND r.unit <> '' AND r.request_id IN ({marks})"""
_DROP: Final = """DELETE FROM feedback WHERE joined = 0 AND value IS NOT NULL
    AND request_id = ? AND time > ?"""
_AFTER: Final = f"""SELECT COALESCE(SUM(CASE WHEN first_time >= ? THEN 1 ELSE 0 END), 0),
    COALESCE(SUM(CASE WHEN first_time < ? AND changed_time >= ? THEN 1 ELSE 0 END), 0)
    FROM feedback f WHERE experiment = ? AND joined = 1 AND unit <> '' AND value IS NOT NULL
    AND epoch >= ? AND epoch < ? AND {IN.format("f")}"""


class VotesAfterPause(Struct, frozen=True, kw_only=True):
    """Votes on requests from before a pause that came, or changed, after it began."""

    added: int
    changed: int


def in_time(session: Session, rows: Sequence[FeedbackRow]) -> list[FeedbackRow]:
    """Return the rows without late votes. Those whose request is not stored yet stay."""
    until: dict[str, float] = {}
    for ids in pieces(sorted({row.request_id for row in rows})):
        until |= dict(_limits(session, ids))
    return [
        row for row in rows if row.value is None or row.time <= until.get(row.request_id, row.time)
    ]


def drop_late(session: Session, request_ids: Sequence[str]) -> int:
    """Delete late votes that came before their requests were stored; return their number."""
    return sum(
        session.run(_DROP, request_id, until) for request_id, until in _limits(session, request_ids)
    )


def after_pauses(
    session: Session, experiment: str, pauses: Sequence[tuple[int, float]]
) -> VotesAfterPause:
    """Count the votes that came or changed after the first pause that followed their request.

    pauses: the epoch number of each and when it began, in order.
    """
    added = changed = first = 0
    for number, began in pauses:
        values = (began, began, began, experiment, first, number)
        ((more, other),) = session.rows(tuple[int, int], _AFTER, *values)
        added, changed, first = added + more, changed + other, number
    return VotesAfterPause(added=added, changed=changed)


def _limits(session: Session, request_ids: Sequence[str]) -> list[tuple[str, float]]:
    sql = _UNTIL.format(marks=marks(request_ids))
    return session.rows(tuple[str, float], sql, *request_ids)
