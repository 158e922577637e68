"""Schema versions and retention, on both databases."""

import pytest
from msgspec.structs import replace

from gateway.experiments.statistics.interval_history import Interval, Point
from gateway.store.base import Pause, RequestCounts
from gateway.store.database import Database
from gateway.store.errors import StoreUnavailable
from gateway.store.open import driver_of, open_store
from gateway.store.schema import MIGRATIONS, migration
from gateway.store.sql import SqlStore
from schemas.errors import InvalidConfig
from schemas.secret import Secret
from tests.gateway.store.rows import NOON, attempt_row, request_row, vote

DAY = 86_400.0
NEWER = f"has schema version {len(MIGRATIONS) + 1}, this program supports up to {len(MIGRATIONS)}"


def test_a_database_of_a_newer_program_is_refused(url: Secret) -> None:
    driver = driver_of(url)
    newer = Database(driver, migration(driver.text, (*MIGRATIONS, ("SELECT 1",))))
    newer.prepare()
    newer.close()

    with pytest.raises(InvalidConfig, match=NEWER):
        open_store(url).prepare()


def test_tables_changed_by_a_newer_program_count_as_unreachable(
    url: Secret, store: SqlStore
) -> None:
    """Where replicas are replaced one by one, the older ones go on, and their records wait."""
    driver = driver_of(url)
    newer = Database(driver, migration(driver.text, (*MIGRATIONS, ("SELECT 1",))))
    newer.prepare()
    newer.close()

    with pytest.raises(StoreUnavailable, match=NEWER):
        store.pauses()


def test_a_store_of_the_first_version_is_used_with_what_is_in_it(url: Secret) -> None:
    driver = driver_of(url)
    older = Database(driver, migration(driver.text, MIGRATIONS[:1]))
    with older.writing() as session:
        session.run("INSERT INTO experiment_pauses VALUES (?, ?, ?)", "e", "too slow", 10.0)
    older.close()
    store = open_store(url)
    point = Point(time=20.0, intervals={"b": Interval(difference=0.5, low=0.25, high=0.75)})

    store.add_interval_point("e", "error", point)

    assert store.pauses() == {"e": Pause(experiment="e", reason="too slow", at=10.0)}
    assert store.interval_points("e", "error") == (point,)
    store.close()


def test_what_an_older_program_has_counted_goes_on(url: Secret) -> None:
    driver = driver_of(url)
    older = Database(driver, migration(driver.text, MIGRATIONS[:3]))
    with older.writing() as session:
        session.run("INSERT INTO experiment_requests VALUES (?, ?, ?, ?, ?)", "e", 1, "a", 5, 1)
    older.close()
    store = open_store(url)

    before = store.request_counts("e")
    store.import_rows("f", 0, 1, [request_row("r1", fallback=True)])

    counted = RequestCounts(epoch=1, variant="a", requests=5, fallbacks=1)
    assert before == [counted]
    assert store.request_counts("e") == [replace(counted, requests=6, fallbacks=2, last=NOON)]
    store.close()


def test_the_votes_of_an_older_store_are_in_the_vote_rate(url: Secret) -> None:
    """Its own feedback may have had a name that the gateway measures now."""
    driver = driver_of(url)
    older = Database(driver, migration(driver.text, MIGRATIONS[:6]))
    unit = "INSERT INTO experiment_units VALUES (?, ?, ?, ?, ?, ?, ?)"
    feedback = (
        "INSERT INTO feedback (request_id, metric, key_name, time, value, comment, boolean, joined,"
        " experiment, epoch, variant, unit) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
    )
    with older.writing() as session:
        for name, count in (("0a", 3), ("7b", 1), ("ff", 2), ("other", 1)):
            session.run(unit, "e", "error", name, 1, "a", count, 0.0)
        session.run(unit, "e", "fallback", "0a", 1, "a", 1, 5.0)
        for request_id, metric, name in (
            *(("r1", "stars", "0a"), ("r1", "fallback", "0a"), ("r2", "stars", "0a")),
            *(("r3", "stars", "ff"), ("r4", "stars", "other")),
        ):
            placed = (1, "e", 1, "a", name)
            session.run(feedback, request_id, metric, "key", 1.0, 5.0, "", 0, *placed)
    older.close()
    store = open_store(url)

    rows = [row for page in store.units("e") for row in page if row.metric != "error"]

    assert [(row.metric, row.unit, row.count, row.total) for row in rows] == [
        ("fallback_votes", "0a", 1, 5.0),
        ("vote_rate", "0a", 3, 2.0),
        ("vote_rate", "7b", 1, 0.0),
        ("vote_rate", "ff", 2, 1.0),
        ("vote_rate", "other", 1, 1.0),
    ]
    assert list(store.metrics("e")) == ["fallback_votes", "stars"]
    store.import_rows("f", 0, 1, [request_row("r5", unit="7b"), vote("r5", 1.0)])
    assert store.outcomes("e", "vote_rate").cells[0].total == 5.0
    store.close()


def test_an_older_database_is_brought_up_to_date_with_what_is_in_it(
    url: Secret, store: SqlStore
) -> None:
    store.import_rows("f", 0, 1, [request_row("r1")])
    driver = driver_of(url)
    step = ("ALTER TABLE requests ADD COLUMN mood {text} NOT NULL DEFAULT 'calm'",)
    newer = Database(driver, migration(driver.text, (*MIGRATIONS, step)))

    with newer.reading() as session:
        moods = session.rows(tuple[str], "SELECT mood FROM requests")

    newer.close()
    assert moods == [("calm",)]


def test_a_migration_that_fails_leaves_the_database_as_it_was(url: Secret, store: SqlStore) -> None:
    store.prepare()
    driver = driver_of(url)
    steps = (*MIGRATIONS, ("CREATE TABLE half (done INTEGER)", "CREATE TABLE requests (x INTEGER)"))
    broken = Database(driver, migration(driver.text, steps))

    with pytest.raises(Exception, match="already exists"):
        broken.prepare()

    sound = Database(driver, migration(driver.text, (*MIGRATIONS, steps[-1][:1])))
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
    assert "PostgreSQL at 127.0.0.1/x" in str(caught.value) or "unable to open" in str(caught.value)
