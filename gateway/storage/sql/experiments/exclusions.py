"""Units and keys that operators exclude from an experiment, and which keys sent for which unit.

`experiment_left_out` has the units that are excluded, by themselves or by a key that sent for them.
Every query of outcomes leaves them out.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, Literal

from msgspec import Struct

from strowger_gateway.gateway.audit.event import clean
from strowger_gateway.gateway.storage.sql.database import Insert, Session, marks, pieces
from strowger_gateway.gateway.storage.sql.rows import RequestRow

Kind = Literal["unit", "key"]
LONGEST_REASON: Final = 10_000
"""Characters of a reason that are kept, on one line: reports print it on terminals."""

IN: Final = """NOT EXISTS (SELECT 1 FROM experiment_left_out x
    WHERE x.experiment = {0}.experiment AND x.unit = {0}.unit)"""
"""The condition that a row of a table or alias is not left out."""


class ExcludedName(Struct, frozen=True, kw_only=True):
    """An exclusion. name: a unit's hash or the name of a key. at: Unix seconds."""

    kind: Kind
    name: str
    reason: str
    by: str
    at: float


class ExcludedCounts(Struct, frozen=True, kw_only=True):
    """What one exclusion leaves out. requests: of its units, from any key.

    shared_units: units of an excluded key that other keys sent for, too.
    """

    units: int
    requests: int
    shared_units: int


_LISTED: Final = """SELECT kind, name, reason, excluded_by, at FROM experiment_exclusions
    WHERE experiment = ? ORDER BY at, kind, name"""
_MARKS: Final = "SELECT experiment, SUM(at) FROM experiment_exclusions GROUP BY experiment"
_ADD: Final = """INSERT INTO experiment_exclusions
    (experiment, kind, name, reason, excluded_by, at) VALUES (?, ?, ?, ?, ?, ?)
    ON CONFLICT (experiment, kind, name) DO UPDATE SET reason = excluded.reason,
    excluded_by = excluded.excluded_by, at = excluded.at"""
_REMOVE: Final = "DELETE FROM experiment_exclusions WHERE experiment = ? AND kind = ? AND name = ?"
_UNIT_SENT: Final = "SELECT COUNT(*) FROM experiment_first WHERE experiment = ? AND unit = ?"
_KEY_SENT: Final = "SELECT COUNT(*) FROM experiment_unit_keys WHERE experiment = ? AND key = ?"
_FORGET: Final = "DELETE FROM experiment_left_out WHERE experiment = ?"
_LEAVE_OUT: Final = """INSERT INTO experiment_left_out (experiment, unit)
    SELECT experiment, name FROM experiment_exclusions WHERE experiment = ? AND kind = 'unit'
    UNION SELECT k.experiment, k.unit FROM experiment_exclusions e JOIN experiment_unit_keys k
    ON k.experiment = e.experiment AND k.key = e.name WHERE e.experiment = ? AND e.kind = 'key'"""
_EXCLUDED_KEYS: Final = """SELECT experiment, name FROM experiment_exclusions
    WHERE kind = 'key' AND experiment IN ({marks})"""
_LEFT_OUT: Final = Insert(
    table="experiment_left_out",
    columns=("experiment", "unit"),
    otherwise="ON CONFLICT DO NOTHING",
)
_UNIT_KEY: Final = Insert(
    table="experiment_unit_keys",
    columns=("experiment", "key", "unit", "variant", "requests"),
    otherwise="""ON CONFLICT (experiment, key, unit, variant) DO UPDATE SET
    requests = experiment_unit_keys.requests + excluded.requests""",
)
_COUNTED: Final = """SELECT COUNT(*), CAST(COALESCE(SUM(requests), 0) AS BIGINT),
    CAST(COALESCE(SUM(shared), 0) AS BIGINT) FROM
    (SELECT CAST(SUM(o.requests) AS BIGINT) AS requests,
        CASE WHEN COUNT(DISTINCT o.key) > 1 THEN 1 ELSE 0 END AS shared
        FROM experiment_unit_keys o WHERE o.experiment = ? AND o.unit IN ({units})
        GROUP BY o.unit) AS u"""
_OF_KEY: Final = "SELECT k.unit FROM experiment_unit_keys k WHERE k.experiment = ? AND k.key = ?"


def excluded_names(session: Session, experiment: str) -> Sequence[ExcludedName]:
    """Return the exclusions of an experiment, oldest first."""
    rows = session.rows(tuple[Kind, str, str, str, float], _LISTED, experiment)
    return [
        ExcludedName(kind=kind, name=name, reason=reason, by=by, at=at)
        for kind, name, reason, by, at in rows
    ]


def exclusion_marks(session: Session) -> Mapping[str, float]:
    """Return, by experiment, a number that changes with its exclusions."""
    rows = session.rows(tuple[str, float], _MARKS)
    return dict(rows)


def has_sent(session: Session, experiment: str, kind: Kind, name: str) -> bool:
    """Return whether a unit or key has sent a request in an experiment."""
    sql = _UNIT_SENT if kind == "unit" else _KEY_SENT
    return session.rows(tuple[int], sql, experiment, name)[0][0] > 0


def exclude(session: Session, experiment: str, one: ExcludedName) -> None:
    """Exclude a unit or a key, also from requests that are still to come."""
    reason = clean(one.reason, LONGEST_REASON)
    session.run(_ADD, experiment, one.kind, one.name, reason, one.by, one.at)
    _leave_out(session, experiment)


def include(session: Session, experiment: str, kind: Kind, name: str) -> bool:
    """End an exclusion; return whether there was one."""
    was = session.run(_REMOVE, experiment, kind, name) > 0
    _leave_out(session, experiment)
    return was


def counted(session: Session, experiment: str, kind: Kind, name: str) -> ExcludedCounts:
    """Return what an exclusion leaves out."""
    sql = _COUNTED.format(units="?" if kind == "unit" else _OF_KEY)
    values = (name,) if kind == "unit" else (experiment, name)
    ((units, requests, shared),) = session.rows(tuple[int, int, int], sql, experiment, *values)
    return ExcludedCounts(
        units=units, requests=requests, shared_units=shared if kind == "key" else 0
    )


def note_keys(session: Session, rows: Iterable[RequestRow]) -> None:
    """Note which keys sent new requests for which units, and leave out those of excluded keys."""
    sent = Counter((row.experiment, row.key, row.unit, row.variant) for row in rows if row.unit)
    if not sent:
        return
    session.insert(_UNIT_KEY, [(*place, count) for place, count in sorted(sent.items())])
    excluded: set[tuple[str, str]] = set()
    for names in pieces(sorted({experiment for experiment, *_ in sent})):
        sql = _EXCLUDED_KEYS.format(marks=marks(names))
        excluded.update(session.rows(tuple[str, str], sql, *names))
    units = {(place[0], place[2]) for place in sent if place[:2] in excluded}
    session.insert(_LEFT_OUT, sorted(units))


def _leave_out(session: Session, experiment: str) -> None:
    session.run(_FORGET, experiment)
    session.run(_LEAVE_OUT, experiment, experiment)
