"""The history of intervals, kept over restarts, on both databases."""

from concurrent.futures import ThreadPoolExecutor

from strowger_gateway.gateway.statistics.interval_history import POINTS, Interval, Point
from strowger_gateway.gateway.storage.sql.open import open_store
from strowger_gateway.gateway.storage.sql.sql import SqlStore
from strowger_gateway.schemas.secret import Secret


def point(time: float, **differences: float) -> Point:
    return Point(
        time=time,
        intervals={
            name: Interval(difference=value, low=value - 0.1, high=value + 0.25)
            for name, value in differences.items()
        },
    )


def test_a_history_survives_the_process_that_wrote_it(url: Secret) -> None:
    before = open_store(url)
    points = (point(10.0, treatment=0.5), point(20.0, treatment=1 / 3, other=-0.25))
    added = [before.add_interval_point("e", "thumbs_up", one) for one in points]
    before.close()

    store = open_store(url)

    assert added == [True, True]
    assert store.interval_points("e", "thumbs_up") == points
    assert store.interval_points("e", "error") == store.interval_points("other", "thumbs_up") == ()
    store.close()


def test_a_history_of_any_length_is_kept_in_few_points(store: SqlStore) -> None:
    for second in range(0, 2_000, 5):
        store.add_interval_point("e", "error", point(float(second), treatment=float(second)))

    kept = store.interval_points("e", "error")
    assert POINTS / 3 < len(kept) <= POINTS
    assert kept[0] == point(0.0, treatment=0.0)
    assert kept[-1].time > 1_980


def test_of_several_writers_at_one_moment_one_adds_its_point(store: SqlStore) -> None:
    for second in range(100):
        store.add_interval_point("e", "error", point(100.0 * second, treatment=0.0))

    with ThreadPoolExecutor(4) as pool:
        times = (10_000.0, 10_000.1, 10_000.2, 10_000.3)
        asked = [
            pool.submit(store.add_interval_point, "e", "error", point(at, treatment=1.0))
            for at in times
        ]
        added = [one.result() for one in asked]

    assert sorted(added) == [False, False, False, True]
    assert len(store.interval_points("e", "error")) == 101
