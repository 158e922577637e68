"""Read the traffic of all gateways that share a store."""

from collections.abc import Mapping
from typing import Final

from msgspec import Struct

from strowger_gateway.gateway.storage.sql.database import Database, Session
from strowger_gateway.gateway.storage.sql.traffic.counting import TrafficCell
from strowger_gateway.gateway.storage.sql.traffic.rows import read_sums
from strowger_gateway.gateway.storage.sql.traffic.series import BackendSeries, joined
from strowger_gateway.gateway.storage.sql.traffic.windows import STEPS, Window, span_of


class TrafficFilter(Struct, frozen=True):
    """Only the traffic of these, each by its own name; `None`: of all.

    team, key: only requests of a key; the team is the key's when the request was sent.
    """

    model: str | None = None
    backend: str | None = None
    key: str | None = None
    team: str | None = None

    @property
    def of_whom(self) -> bool:
        """Whether it is about clients, whom only the store knows."""
        return self.key is not None or self.team is not None


EVERYTHING: Final = TrafficFilter()


class TrafficNames(Struct, frozen=True, kw_only=True):
    """What the store has traffic of, in order of their names."""

    models: tuple[str, ...] = ()
    backends: tuple[str, ...] = ()
    keys: tuple[str, ...] = ()
    teams: tuple[str, ...] = ()


class TrafficRows:
    """Every call blocks, and raises StoreUnavailable."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def series(
        self, window: Window, now: float, only: TrafficFilter = EVERYTHING
    ) -> tuple[BackendSeries, ...]:
        """Return the cells of a window as of `now`, Unix seconds, by model and backend."""
        begin, end = span_of(window, now)
        with self._database.reading() as session:
            places = _places(session, only)
            sums = read_sums(session, list(places), begin, end, STEPS[window])
        cells: dict[tuple[str, str], list[TrafficCell]] = {}
        for (place, time), one in sums.items():
            cells.setdefault(places[place], []).append(one.cell(time))
        return tuple(
            BackendSeries(model=model, backend=backend, cells=joined(found))
            for (model, backend), found in sorted(cells.items())
        )

    def names(self, limit: int = 200) -> TrafficNames:
        """Return what can be chosen, at most `limit` of each, the first by name."""
        with self._database.reading() as session:
            found = {
                column: tuple(
                    name
                    for (name,) in session.rows(
                        tuple[str],
                        f"SELECT DISTINCT {column} FROM traffic_places WHERE scope = ? "
                        f"AND {column} <> '' ORDER BY {column} LIMIT ?",
                        scope,
                        limit,
                    )
                )
                for column, scope in _SCOPES.items()
            }
        return TrafficNames(
            models=found["model"],
            backends=found["backend"],
            keys=found["key"],
            teams=found["team"],
        )


def _places(session: Session, only: TrafficFilter) -> Mapping[int, tuple[str, str]]:
    """Return model and backend by the id of the place."""
    scope = "all" if not only.of_whom else "team" if only.key is None else "key"
    where, values = ["scope = ?"], [scope]
    for column in _SCOPES:
        value = getattr(only, column)
        if value is not None:
            where.append(f"{column} = ?")
            values.append(value)
    rows = session.rows(
        tuple[int, str, str],
        f"SELECT id, model, backend FROM traffic_places WHERE {' AND '.join(where)}",
        *values,
    )
    return {id: (model, backend) for id, model, backend in rows}


_SCOPES: Final = {"model": "all", "backend": "all", "key": "key", "team": "team"}
"""Where the values of a column are found."""
