"""Events of all gateways in the store: filtered, and no more than are to be kept."""

from collections.abc import Generator
from pathlib import Path

import pytest

from strowger_gateway.gateway.console.problems.event_rows import (
    KEPT_S,
    STALE_S,
    EventQuery,
    prune_events,
    put_events,
    put_problems,
    read_events,
    read_problems,
)
from strowger_gateway.gateway.console.problems.happening import Happening
from strowger_gateway.gateway.console.problems.words import problem
from strowger_gateway.gateway.storage.sql.open import open_store
from strowger_gateway.gateway.storage.sql.sql import SqlStore
from strowger_gateway.schemas.secret import Secret
from tests.stand_ins.postgres import Postgres


@pytest.fixture(params=["sqlite", "postgresql"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Generator[SqlStore]:
    url = f"sqlite:///{tmp_path / 'store.db'}"
    if request.param == "postgresql":
        server: Postgres = request.getfixturevalue("postgres")
        url = server.empty_database()
    found = open_store(Secret(url))
    yield found
    found.close()


def event(at: float, kind: str = "failing", backend: str = "p/m", gateway: str = "a") -> Happening:
    return Happening(time=at, kind=kind, model="chat", backend=backend, gateway=gateway)


def test_events_are_filtered_as_the_last_ones_in_memory_are(store: SqlStore) -> None:
    events = [
        event(1.0),
        event(2.0, "recovered", "p/m @ 10.0.0.1:80"),
        event(3.0, backend="pq/m", gateway="b"),
        event(4.0, "started", ""),
        event(5.0, backend="p%/x"),
    ]
    put_events(store.database, [(int(one.time * 1e6), one) for one in events])
    put_events(store.database, [(1_000_000, events[0])])  # after an answer that was lost

    for query in (
        EventQuery(),
        EventQuery(limit=2),
        EventQuery(backend="p"),
        EventQuery(backend="p/m"),
        EventQuery(backend="p%"),
        EventQuery(kind="failing", gateway="a"),
        EventQuery(model="chat", since=2.0, before=4.0),
        EventQuery(model="other"),
    ):
        wanted = [one for one in reversed(events) if query.wants(one)][: query.limit]
        assert read_events(store.database, query) == wanted, query


def test_old_events_and_those_beyond_the_most_are_deleted(store: SqlStore) -> None:
    at = KEPT_S + 100.0
    events = [event(time) for time in (1.0, 200.0, 300.0, 400.0, at)]
    put_events(store.database, [(int(one.time * 1e6), one) for one in events])

    prune_events(store.database, at, 3)

    assert read_events(store.database, EventQuery()) == events[:1:-1]


def test_problems_of_a_gateway_that_has_ended_are_not_shown(store: SqlStore) -> None:
    found = [problem("store_down", since=5.0)]
    put_problems(store.database, "a", found, 100.0)
    put_problems(store.database, "b", found, 130.0)
    put_problems(store.database, "b", [], 131.0)

    assert read_problems(store.database, 100.0 + STALE_S) == {"a": found}
    assert read_problems(store.database, 101.0 + STALE_S) == {}
