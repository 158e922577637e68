"""Events and problems of all gateways in the database.

An event is a row that nothing changes. A gateway has one row of its current problems, with the time
at which they were true; one that has not been renewed for STALE_S is of a gateway that has ended.
"""

from collections.abc import Sequence
from typing import Final

import msgspec
from msgspec import Struct

from strowger_gateway.gateway.console.problems.happening import Happening
from strowger_gateway.gateway.console.problems.problem import GatewayProblem
from strowger_gateway.gateway.storage.sql.database import Database

KEPT_S: Final = 30 * 86_400.0
"""Events are kept for so long, and at most KEPT of them."""

KEPT: Final = 20_000
STALE_S: Final = 60.0

_Row = tuple[str]


class EventQuery(Struct, frozen=True, kw_only=True):
    """Which events, the newest first. Texts are exact, "" for all; times are Unix seconds.

    backend: PROVIDER, PROVIDER/MODEL, or that of a replica with ` @ HOST:PORT`. before: exclusive.
    """

    limit: int = 100
    kind: str = ""
    model: str = ""
    backend: str = ""
    gateway: str = ""
    since: float | None = None
    before: float | None = None

    def wants(self, one: Happening) -> bool:
        return (
            self.kind in ("", one.kind)
            and self.model in ("", one.model)
            and self.gateway in ("", one.gateway)
            and (not self.backend or _is_named(one.backend, self.backend))
            and (self.since is None or one.time >= self.since)
            and (self.before is None or one.time < self.before)
        )


def put_events(database: Database, events: Sequence[tuple[int, Happening]]) -> None:
    """Add events by their numbers, which rise within a gateway. Raises StoreUnavailable."""
    with database.writing() as session:
        session.many(
            "INSERT INTO gateway_events (number, gateway, time, kind, model, backend, body)"
            " VALUES (?, ?, ?, ?, ?, ?, ?) ON CONFLICT (number, gateway) DO NOTHING",
            [
                (
                    number,
                    one.gateway,
                    one.time,
                    one.kind,
                    one.model,
                    one.backend,
                    msgspec.json.encode(one).decode(),
                )
                for number, one in events
            ],
        )


def prune_events(database: Database, at: float, most: int = KEPT) -> None:
    """Delete what is too old, or more than the most. at: Unix seconds. Raises StoreUnavailable."""
    with database.writing() as session:
        session.run("DELETE FROM gateway_events WHERE time < ?", at - KEPT_S)
        session.run(
            "DELETE FROM gateway_events WHERE number <= (SELECT number FROM gateway_events"
            " ORDER BY number DESC LIMIT 1 OFFSET ?)",
            most,
        )
        session.run("DELETE FROM gateway_problems WHERE seen < ?", at - STALE_S)


def read_events(database: Database, query: EventQuery) -> list[Happening]:
    """Return events of all gateways. Raises StoreUnavailable."""
    parts, values = list[str](), list[str | float]()
    for name in ("kind", "model", "gateway"):
        if wanted := getattr(query, name):
            parts.append(f"{name} = ?")
            values.append(wanted)
    if query.backend:
        parts.append("(backend = ? OR backend LIKE ? ESCAPE '!' OR backend LIKE ? ESCAPE '!')")
        name = _escaped(query.backend)
        values += [query.backend, f"{name}/%", f"{name} @ %"]
    if query.since is not None:
        parts.append("time >= ?")
        values.append(query.since)
    if query.before is not None:
        parts.append("time < ?")
        values.append(query.before)
    where = f" WHERE {' AND '.join(parts)}" if parts else ""
    with database.reading() as session:
        rows = session.rows(
            _Row,
            f"SELECT body FROM gateway_events{where} ORDER BY number DESC, gateway LIMIT ?",
            *values,
            query.limit,
        )
    return [msgspec.json.decode(body, type=Happening) for (body,) in rows]


def put_problems(
    database: Database, gateway: str, problems: Sequence[GatewayProblem], at: float
) -> None:
    """Replace the problems of a gateway; none removes its row. Raises StoreUnavailable."""
    with database.writing() as session:
        if not problems:
            session.run("DELETE FROM gateway_problems WHERE gateway = ?", gateway)
            return
        session.run(
            "INSERT INTO gateway_problems (gateway, seen, body) VALUES (?, ?, ?)"
            " ON CONFLICT (gateway) DO UPDATE SET seen = excluded.seen, body = excluded.body",
            *(gateway, at, msgspec.json.encode(problems).decode()),
        )


def read_problems(database: Database, at: float) -> dict[str, list[GatewayProblem]]:
    """Return the current problems by gateway. at: Unix seconds. Raises StoreUnavailable."""
    with database.reading() as session:
        rows = session.rows(
            tuple[str, str],
            "SELECT gateway, body FROM gateway_problems WHERE seen >= ? ORDER BY gateway",
            at - STALE_S,
        )
    return {name: msgspec.json.decode(body, type=list[GatewayProblem]) for name, body in rows}


def _is_named(place: str, wanted: str) -> bool:
    return place == wanted or place.startswith((f"{wanted}/", f"{wanted} @ "))


def _escaped(text: str) -> str:
    return text.replace("!", "!!").replace("%", "!%").replace("_", "!_")
