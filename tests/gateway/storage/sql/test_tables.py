"""Schema versions and retention, on both databases."""

import pytest
from msgspec.structs import replace

from strowger_gateway.gateway.storage.sql.database import Database, Value
from strowger_gateway.gateway.storage.sql.errors import StoreUnavailable
from strowger_gateway.gateway.storage.sql.open import driver_of, open_store
from strowger_gateway.gateway.storage.sql.schema import MIGRATIONS, migration
from strowger_gateway.gateway.storage.sql.sql import SqlStore
from strowger_gateway.schemas.errors import InvalidConfig
from strowger_gateway.schemas.secret import Secret
from tests.gateway.storage.sql.rows import NOON, attempt_row, request_row, vote

DAY = 86_400.0
NEWER = f"has schema version {len(MIGRATIONS) + 1}, this program supports up to {len(MIGRATIONS)}"


def test_a_database_of_a_newer_program_is_refused(url: Secret) -> None:
    driver = driver_of(url)
    newer = Database(driver, migration(driver, (*MIGRATIONS, ("SELECT 1",))))
    newer.prepare()
    newer.close()

    with pytest.raises(InvalidConfig, match=NEWER):
        open_store(url).prepare()


def test_tables_changed_by_a_newer_program_count_as_unreachable(
    url: Secret, store: SqlStore
) -> None:
    """Where gateways are replaced one by one, the older ones go on, and their records wait."""
    driver = driver_of(url)
    newer = Database(driver, migration(driver, (*MIGRATIONS, ("SELECT 1",))))
    newer.prepare()
    newer.close()

    with pytest.raises(StoreUnavailable, match=NEWER):
        store.pauses()


UNRELEASED = "has the tables of an unreleased strowger"


@pytest.mark.parametrize("version", [1, 3, 22])
def test_a_database_of_an_unreleased_program_is_refused_with_what_to_do(
    url: Secret, store: SqlStore, version: int
) -> None:
    """Its version has no digest of the tables."""
    create_version(url, "version INTEGER NOT NULL", version)

    with pytest.raises(InvalidConfig) as caught:
        store.prepare()

    (problem,) = caught.value.problems
    name = driver_of(url).where
    assert problem.startswith(f"store.url: {name} {UNRELEASED} (schema version {version})")
    assert "start with an empty one" in problem
    assert "`strowger records export` with the strowger that wrote them" in problem


def test_a_database_whose_version_1_had_other_tables_is_refused(
    url: Secret, store: SqlStore
) -> None:
    driver = driver_of(url)
    edited = Database(driver, migration(driver, (("CREATE TABLE requests (x INTEGER)",),)))
    edited.prepare()
    edited.close()

    with pytest.raises(InvalidConfig, match=rf"{UNRELEASED} \(schema version 1\)"):
        store.prepare()


def test_a_table_of_another_program_is_refused(url: Secret, store: SqlStore) -> None:
    create_version(url, "at TEXT NOT NULL", "today")

    with pytest.raises(InvalidConfig, match="has a table schema_version of another program"):
        store.prepare()


def test_a_refused_database_stays_as_it_was(url: Secret, store: SqlStore) -> None:
    create_version(url, "version INTEGER NOT NULL", 22)
    with pytest.raises(InvalidConfig):
        store.prepare()

    unprepared = Database(driver_of(url), lambda _: None)
    with unprepared.reading() as session:
        rows = session.rows(tuple[object, ...], "SELECT * FROM schema_version")
    with pytest.raises(StoreUnavailable, match="requests"), unprepared.reading() as session:
        session.rows(tuple[object, ...], "SELECT * FROM requests")
    unprepared.close()

    assert rows == [(22,)]


def create_version(url: Secret, columns: str, value: Value) -> None:
    """Create the table schema_version as another program has it, with one row."""
    unprepared = Database(driver_of(url), lambda _: None)
    with unprepared.writing() as session:
        session.run(f"CREATE TABLE schema_version ({columns})")
        session.run("INSERT INTO schema_version VALUES (?)", value)
    unprepared.close()


def test_an_older_database_is_brought_up_to_date_with_what_is_in_it(
    url: Secret, store: SqlStore
) -> None:
    store.import_rows("f", 0, 1, [request_row("r1")])
    driver = driver_of(url)
    step = ("ALTER TABLE requests ADD COLUMN mood {text} NOT NULL DEFAULT 'calm'",)
    newer = Database(driver, migration(driver, (*MIGRATIONS, step)))

    with newer.reading() as session:
        moods = session.rows(tuple[str], "SELECT mood FROM requests")

    newer.close()
    assert moods == [("calm",)]


def test_a_migration_that_fails_leaves_the_database_as_it_was(url: Secret, store: SqlStore) -> None:
    store.prepare()
    driver = driver_of(url)
    steps = (*MIGRATIONS, ("CREATE TABLE half (done INTEGER)", "CREATE TABLE requests (x INTEGER)"))
    broken = Database(driver, migration(driver, steps))

    with pytest.raises(Exception, match="already exists"):
        broken.prepare()

    sound = Database(driver, migration(driver, (*MIGRATIONS, steps[-1][:1])))
    sound.prepare()
    sound.close()


def test_old_requests_go_and_what_experiments_learnt_stays(store: SqlStore) -> None:
    store.epoch("e", "f", {"a": 1.0}, NOON)
    old = [request_row("r1"), attempt_row("r1"), vote("r1", 3.0)]
    other = [request_row("r2", experiment="", variant="", unit=""), vote("r2", 4.0)]
    new = [request_row("r3", time=NOON + 9), attempt_row("r3", time=NOON + 9)]
    store.import_rows("f", 0, 1, [*old, *other, *new])
    learnt = [store.outcomes("e", name) for name in ("error", "latency_ms", "stars")]

    store.prune(NOON + 5, 0.0)

    assert [store.known_request(name) is not None for name in ("r1", "r2", "r3")] == [
        False,
        False,
        True,
    ]
    assert store.recorded_request("r1") is None
    assert [store.outcomes("e", name) for name in ("error", "latency_ms", "stars")] == learnt
    assert store.counts("e")[0].arms[0].units == 1
    store.import_rows("g", 0, 1, [vote("r1", 5.0, time=NOON + 9)])
    assert store.outcomes("e", "stars").cells[0].total == 5.0


def test_a_request_is_found_with_its_attempts_by_id_and_by_time(store: SqlStore) -> None:
    rows = [
        *(request_row("r1", time=NOON + 1), attempt_row("r1", 2), attempt_row("r1", role="failed")),
        *(request_row("r2", time=NOON + 2, variant="b", fallback=True), attempt_row("r2")),
        request_row("r3", time=NOON + 3, status=404),
    ]
    store.import_rows("f", 0, 1, rows)

    found = store.recorded_request("r1")
    before = store.recorded_before(NOON + 3, 5)

    assert found is not None
    assert (found.key, found.backend, found.status, found.ms) == ("key", "remote/m", 200, 20.0)
    assert [one.role for one in found.attempts] == ["failed", "served"]
    assert [one.request_id for one in before] == ["r2", "r1"]
    assert (before[0].variant, before[0].fallback, len(before[0].attempts)) == ("b", True, 1)
    assert before[1] == found
    assert [one.request_id for one in store.recorded_before(NOON + 9, 1)] == ["r3"]
    assert store.recorded_request("r4") is None


def test_what_parts_have_recorded_stays_when_parts_come_and_go(store: SqlStore) -> None:
    """The names are in the rows, so no table changes with the parts of a program."""
    first, second = {"tier": "cheap", "turns": 3}, {"saved_usd": 0.25, "looped": True, "why": "\0é"}
    rows = [
        replace(request_row("r1", time=NOON + 1), attributes=first),
        replace(request_row("r2", time=NOON + 2), attributes=second),
        request_row("r3", time=NOON + 3),
    ]
    store.import_rows("f", 0, 1, rows)

    found = [one.attributes for one in store.recorded_before(NOON + 9, 5)]

    assert found == [None, second, first]


def test_of_all_that_use_a_store_one_has_a_turn(store: SqlStore) -> None:
    turns = [store.claim("t", 5.0, at) for at in (100.0, 100.1, 104.9, 105.0, 105.0)]

    assert turns == [True, False, False, True, False]
    assert store.claim("another", 5.0, 100.0)


def test_a_wrong_clock_delays_no_request(store: SqlStore) -> None:
    store.claim("t", 5.0, 1e9)

    assert store.claim("t", 5.0, 100.0)


def test_concurrent_changes_of_the_store_wait_for_each_other(url: Secret) -> None:
    """Else both would find no epoch, or count the same unit."""
    import threading

    stores = [open_store(url) for _ in range(4)]
    stores[0].prepare()

    def work(number: int) -> None:
        for turn in range(5):
            stores[number].epoch("e", f"{number}-{turn}", {"a": 1.0}, NOON)
            rows = [request_row(f"{number}-{turn}", unit="u"), vote(f"{number}-{turn}", 0.5)]
            stores[number].import_rows(f"file-{number}", turn, turn + 1, rows)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert [epoch.number for epoch in stores[0].epochs("e")] == list(range(1, 21))
    assert stores[0].outcomes("e", "stars").cells[0].total == 10.0
    for store in stores:
        store.close()


@pytest.mark.parametrize(
    "url", ["postgresql://u:secret-word@127.0.0.1:1/x", "sqlite:////no/such/folder/x.db"]
)
def test_the_error_for_an_unreachable_store_has_no_password(url: str) -> None:
    with pytest.raises(StoreUnavailable) as caught:
        open_store(Secret(url)).prepare()

    assert "secret-word" not in str(caught.value)
    assert "PostgreSQL at 127.0.0.1:1/x" in str(caught.value) or "unable to open" in str(
        caught.value
    )
