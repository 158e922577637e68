"""Begin an epoch when an experiment is paused, before any process has noticed the pause."""

from collections.abc import Mapping
from typing import Final

from strowger_gateway.gateway.storage.sql.database import Session

PAUSED: Final = " paused"
"""Suffix of the fingerprint of an epoch in which control serves everyone."""

_ANY: Final = f"%{PAUSED}"
_BEGIN: Final = f"""INSERT INTO experiment_epochs (experiment, number, fingerprint, shares, began)
    SELECT experiment, number + 1, fingerprint || '{PAUSED}', shares, CAST(? AS DOUBLE PRECISION)
    FROM experiment_epochs WHERE experiment = ? AND fingerprint NOT LIKE ?
    AND number = (SELECT MAX(number) FROM experiment_epochs WHERE experiment = ?)"""
_LAST: Final = """SELECT experiment, MAX(number) FROM experiment_epochs
    WHERE fingerprint LIKE ? GROUP BY experiment"""


def begin_pause(session: Session, experiment: str, now: float) -> None:
    """Begin a paused epoch after the last one, unless that is paused or there is none."""
    session.run(_BEGIN, now, experiment, _ANY, experiment)


def last_paused(session: Session) -> Mapping[str, int]:
    """Return by experiment the number of its last paused epoch."""
    return dict(session.rows(tuple[str, int], _LAST, _ANY))
