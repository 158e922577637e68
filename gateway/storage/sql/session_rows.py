"""Sessions of /admin in the database: a session is valid while its row exists."""

from collections.abc import Sequence
from typing import Final, Literal

import msgspec
from msgspec import Struct

from strowger_gateway.gateway.storage.sql.database import Database, Session

_COLUMNS: Final = "id, kind, subject, name, role, teams, address, since, last_seen, expires"
_teams = msgspec.json.Decoder(tuple[str, ...])


class AdminSession(Struct, frozen=True, kw_only=True):
    """One session. Times are Unix seconds.

    id:      public: it does not open the session. kind: how it was opened.
    subject: the provider's id of the person; "" with the operator's key. name: as shown.
    role, teams: as of the sign-in. address: from where; "" if addresses are hidden.
    seen:    when it was last used, within half a minute.
    """

    id: str
    kind: Literal["admin key", "provider"]
    subject: str
    name: str
    role: Literal["viewer", "operator", "admin"]
    teams: tuple[str, ...] = ()
    address: str
    since: float
    seen: float
    expires: float


class _Row(Struct, frozen=True, kw_only=True, array_like=True):
    """The columns of `_COLUMNS`, in order; teams is JSON."""

    id: str
    kind: Literal["admin key", "provider"]
    subject: str
    name: str
    role: Literal["viewer", "operator", "admin"]
    teams: str
    address: str
    since: float
    seen: float
    expires: float


class SessionRows:
    """The sessions in one database. Every method raises StoreUnavailable."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def begin(self, session: AdminSession, *, origin: str, most: int) -> bool:
        """Add a session; return False if there was one of the same origin.

        Drops sessions that have expired, and the person's oldest ones beyond `most`.
        origin: digest of what it was opened with, if that is valid once only; "" otherwise.
        """
        with self._database.writing() as found:
            found.run("DELETE FROM admin_sessions WHERE expires <= ?", session.since)
            found.run("DELETE FROM admin_session_origins WHERE until <= ?", session.since)
            if origin and not found.run(
                "INSERT INTO admin_session_origins (origin, until) VALUES (?, ?)"
                " ON CONFLICT (origin) DO NOTHING",
                *(origin, session.expires),
            ):
                return False
            found.run(
                f"INSERT INTO admin_sessions ({_COLUMNS}) VALUES ({', '.join('?' * 10)})",
                *(session.id, session.kind, session.subject, session.name, session.role),
                *(msgspec.json.encode(session.teams).decode(), session.address),
                *(session.since, session.seen, session.expires),
            )
            found.run(
                "DELETE FROM admin_sessions WHERE kind = ? AND subject = ? AND id NOT IN ("
                " SELECT id FROM admin_sessions WHERE kind = ? AND subject = ?"
                f" ORDER BY since DESC, id LIMIT {most})",
                *(session.kind, session.subject, session.kind, session.subject),
            )
            return True

    def find(self, id: str) -> AdminSession | None:
        """Return a session, also one that has expired."""
        with self._database.reading() as session:
            found = _select(session, "id = ?", id)
        return found[0] if found else None

    def all(self, at: float) -> list[AdminSession]:
        """Return the sessions that have not expired by `at`, Unix seconds, the newest first."""
        with self._database.reading() as session:
            return _select(session, "expires > ?", at)

    def note_seen(self, id: str, at: float) -> None:
        """Store when a session was last used, Unix seconds."""
        with self._database.writing() as session:
            session.run(
                "UPDATE admin_sessions SET last_seen = ? WHERE id = ? AND last_seen < ?", at, id, at
            )

    def end(self, ids: Sequence[str]) -> None:
        """End sessions; unknown ones are ignored."""
        with self._database.writing() as session:
            for id in ids:
                session.run("DELETE FROM admin_sessions WHERE id = ?", id)


def _select(session: Session, which: str, value: str | float) -> list[AdminSession]:
    rows = session.rows(
        _Row, f"SELECT {_COLUMNS} FROM admin_sessions WHERE {which} ORDER BY since DESC, id", value
    )
    return [
        AdminSession(
            id=row.id,
            kind=row.kind,
            subject=row.subject,
            name=row.name,
            role=row.role,
            teams=_teams.decode(row.teams),
            address=row.address,
            since=row.since,
            seen=row.seen,
            expires=row.expires,
        )
        for row in rows
    ]
