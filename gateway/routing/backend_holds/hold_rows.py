"""The holds in the database: a row for each, until an operator or its time ends it.

`seen` is when a gateway last had the held backend in its configuration. A hold whose backend no
gateway has had for a while is forgotten, so that a backend of the same name begins afresh; one that
only some gateways lack, as while a configuration is rolled out, stays.
"""

from collections.abc import Collection, Sequence
from typing import Final, Literal

from strowger_gateway.gateway.routing.resilience.backend_hold import BackendHold
from strowger_gateway.gateway.storage.sql.database import Database, Session

FORGET_S: Final = 3600.0
"""After so long without its backend in any gateway, a hold is forgotten."""

MOST: Final = 1000
"""Holds that are kept: more than any configuration has backends."""

_COLUMNS: Final = "name, state, reason, held_by, since, held_until"
_Row = tuple[str, Literal["draining", "disabled"], str, str, float, float | None]


def read_holds(database: Database) -> tuple[BackendHold, ...]:
    """Return all holds by name, also those that are over. Raises StoreUnavailable."""
    with database.reading() as session:
        return _holds(session)


def put_hold(database: Database, hold: BackendHold) -> BackendHold | None:
    """Add a hold, or replace that of the same name, which is returned. Raises StoreUnavailable."""
    with database.writing() as session:
        before = {one.name: one for one in _holds(session)}
        session.run(
            f"INSERT INTO backend_holds ({_COLUMNS}, seen) VALUES (?, ?, ?, ?, ?, ?, ?)"
            " ON CONFLICT (name) DO UPDATE SET state = excluded.state, reason = excluded.reason,"
            " held_by = excluded.held_by, since = excluded.since,"
            " held_until = excluded.held_until, seen = excluded.seen",
            *(hold.name, hold.state, hold.reason, hold.by, hold.since, hold.until, hold.since),
        )
        session.run(
            "DELETE FROM backend_holds WHERE name NOT IN"
            f" (SELECT name FROM backend_holds ORDER BY since DESC, name LIMIT {MOST})"
        )
    return before.get(hold.name)


def end_hold(database: Database, name: str) -> BackendHold | None:
    """End a hold; return it, or `None` if there was none. Raises StoreUnavailable."""
    with database.writing() as session:
        before = {one.name: one for one in _holds(session)}
        session.run("DELETE FROM backend_holds WHERE name = ?", name)
    return before.get(name)


def end_over(database: Database, at: float) -> Sequence[BackendHold]:
    """End the holds whose time has passed by `at`, Unix seconds; return those that this call ended.

    Raises StoreUnavailable.
    """
    with database.writing() as session:
        over = [one for one in _holds(session) if one.is_over(at)]
        return [
            one
            for one in over
            if session.run(
                "DELETE FROM backend_holds WHERE name = ? AND held_until <= ?", one.name, at
            )
        ]


def note_configured(database: Database, names: Collection[str], at: float) -> Sequence[BackendHold]:
    """Note that a gateway has what these holds are of; return those that are forgotten now.

    names: of holds. at: Unix seconds. Raises StoreUnavailable.
    """
    with database.writing() as session:
        for name in names:
            session.run(
                "UPDATE backend_holds SET seen = ? WHERE name = ? AND seen < ?", at, name, at
            )
        return [
            one
            for one in _holds(session)
            if one.name not in names
            and session.run(
                "DELETE FROM backend_holds WHERE name = ? AND seen < ?", one.name, at - FORGET_S
            )
        ]


def _holds(session: Session) -> tuple[BackendHold, ...]:
    rows = session.rows(_Row, f"SELECT {_COLUMNS} FROM backend_holds ORDER BY name")
    return tuple(
        BackendHold(name=row[0], state=row[1], reason=row[2], by=row[3], since=row[4], until=row[5])
        for row in rows
    )
