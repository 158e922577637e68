"""The rows behind reports, read in pages, on both databases."""

from strowger_gateway.gateway.storage.sql.experiments.unit_pages import PAGE, UnitTotal, pages
from strowger_gateway.gateway.storage.sql.sql import SqlStore
from tests.gateway.storage.sql.rows import request_row, vote

UNITS = PAGE // 3 + 50
"""With errors, latencies and tokens each, a little more than a page."""


def test_rows_come_in_pages_each_once_and_all_of_one_moment(store: SqlStore) -> None:
    rows = [
        request_row(f"r{number}", unit=f"u{number:05}", variant="ab"[number % 2], tokens=number)
        for number in range(UNITS)
    ]
    store.import_rows("f", 0, 1, [*rows, vote("r1", 4.5), request_row("x", experiment="other")])

    with store.database.reading() as session:
        read = pages(session, "e")
        found = [next(read)]
        store.import_rows("f", 1, 2, [request_row("late", unit="zzz", tokens=1)])
        found += read

    everything = [row for page in found for row in page]
    keys = [(row.metric, row.unit, row.epoch, row.variant) for row in everything]
    assert len(found[0]) == PAGE
    assert len(found) > 1
    assert keys == sorted(set(keys))
    assert {row.unit for row in everything} == {row.unit for row in rows}
    assert [row for row in everything if row.metric == "stars"] == [
        UnitTotal(
            metric="stars",
            unit="u00001",
            epoch=1,
            variant="b",
            count=1,
            total=4.5,
            least=4.5,
            most=4.5,
            excluded=0,
        )
    ]


def test_an_export_that_is_broken_off_leaves_the_store_in_order(store: SqlStore) -> None:
    store.import_rows("f", 0, 1, [request_row("r1", unit="u"), request_row("r2", unit="v")])

    with store.database.reading() as session:
        next(pages(session, "e"))
    store.import_rows("f", 1, 2, [request_row("r3", unit="u", status=500)])

    with store.database.reading() as session:
        errors = [row for page in pages(session, "e") for row in page if row.metric == "error"]
    assert [(one.unit, one.count, one.total) for one in errors] == [("u", 2, 1.0), ("v", 1, 0.0)]


def test_an_experiment_without_participants_has_no_page(store: SqlStore) -> None:
    with store.database.reading() as session:
        assert list(pages(session, "e")) == []
