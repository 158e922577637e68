"""Feedback in any order of arrival, on both databases."""

import pytest
from msgspec.structs import replace

from strowger_gateway.gateway.storage.sql.experiments.votes import Vote, Votes
from strowger_gateway.gateway.storage.sql.sql import SqlStore
from tests.gateway.storage.sql.rows import NOON, request_row, vote

DAY = 86_400.0


def totals(store: SqlStore, metric: str = "stars") -> list[tuple[str, float, float]]:
    return [(cell.variant, cell.count, cell.total) for cell in store.outcomes("e", metric).cells]


def test_a_vote_counts_for_the_variant_of_its_request(store: SqlStore) -> None:
    store.import_rows("f", 0, 1, [request_row("r1", variant="a"), request_row("r2", variant="b")])

    store.import_rows("f", 1, 2, [vote("r1", 4.0), vote("r2", 2.0)])

    assert totals(store) == [("a", 1, 4.0), ("b", 1, 2.0)]


def test_a_vote_that_comes_before_its_request_waits_for_it(store: SqlStore) -> None:
    store.import_rows("f", 0, 1, [vote("r1", 4.0)])
    before = totals(store)

    store.import_rows("f", 1, 2, [request_row("r1", variant="b", epoch=3)])

    assert before == []
    assert totals(store) == [("b", 1, 4.0)]
    assert store.outcomes("e", "stars").cells[0].epoch == 3


def test_a_later_vote_replaces_the_earlier_one_exactly(store: SqlStore) -> None:
    """1e300 − 1e300 + 1 is 1 only where nothing is subtracted."""
    store.import_rows("f", 0, 1, [request_row("r1"), request_row("r2"), vote("r2", 0.1)])
    store.import_rows("f", 1, 2, [vote("r1", 1e300)])

    store.import_rows("f", 2, 3, [vote("r1", 0.2, time=NOON + 1)])

    assert totals(store) == [("a", 2, 0.1 + 0.2)]


def test_of_two_votes_the_last_to_arrive_counts_with_any_clocks_of_gateways(
    store: SqlStore,
) -> None:
    """The first was stamped by a clock that is an hour ahead, or the second by one behind."""
    store.import_rows("f", 0, 1, [request_row("r1"), vote("r1", 5.0, time=NOON + 3_600)])

    store.import_rows("g", 0, 1, [vote("r1", 1.0, time=NOON)])

    assert totals(store) == [("a", 1, 1.0)]


def test_a_comment_in_the_place_of_a_number_takes_the_number_away(store: SqlStore) -> None:
    store.import_rows("f", 0, 1, [request_row("r1"), vote("r1", 5.0)])

    store.import_rows("f", 1, 2, [vote("r1", None, comment="well", time=NOON + 1)])

    assert totals(store) == []
    assert store.metrics("e") == {}


def test_metrics_are_listed_with_whether_all_their_votes_are_boolean(store: SqlStore) -> None:
    rows = [
        request_row("r1"),
        request_row("r2"),
        vote("r1", 1.0, metric="thumbs", boolean=True),
        vote("r2", 0.0, metric="thumbs", boolean=True),
        vote("r1", 1.0, metric="stars", boolean=True),
        vote("r2", 3.0, metric="stars"),
        vote("r1", None, metric="words", comment="good"),
    ]

    store.import_rows("f", 0, 1, rows)

    assert store.metrics("e") == {
        "stars": Votes(boolean=False, least=1.0, greatest=3.0),
        "thumbs": Votes(boolean=True, least=0.0, greatest=1.0),
    }


def test_a_vote_that_is_removed_leaves_the_units_others_exactly(store: SqlStore) -> None:
    rows = [
        *(request_row(name) for name in ("r1", "r2", "r3")),
        *(vote("r1", 0.1), vote("r2", 1e300), vote("r3", 0.2), vote("r2", 1.0, metric="other")),
    ]
    store.import_rows("f", 0, 1, rows)

    gone = [store.remove_vote("e", "stars", name) for name in ("r2", "r2", "never")]
    foreign = store.remove_vote("another", "stars", "r1")

    assert (gone, foreign) == ([1, 0, 0], 0)
    assert totals(store) == [("a", 2, 0.1 + 0.2)]
    assert totals(store, "other") == [("a", 1, 1.0)]


def test_votes_are_listed_from_the_farthest_on(store: SqlStore) -> None:
    values = {"r1": 4.0, "r2": 5.0, "r3": -90.0, "r4": 50.0}
    requests = [request_row(name, variant="b") for name in values]
    votes = [vote(name, value) for name, value in values.items()]
    votes[3] = replace(votes[3], given=700.0)
    store.import_rows("f", 0, 1, [*requests, *votes])

    found = store.votes("e", "stars", 3)

    assert [one.request_id for one in found] == ["r3", "r4", "r2"]
    assert found[1] == Vote(
        request_id="r4",
        key="key",
        time=NOON,
        epoch=1,
        variant="b",
        unit="u",
        value=50.0,
        given=700.0,
        boolean=False,
    )
    assert [one.request_id for one in store.votes("e", "stars", 9, (1.0, 50.0))] == ["r3"]
    assert store.votes("e", "none", 9) == []
    assert store.metrics("e")["stars"] == Votes(boolean=False, least=-90, greatest=50, capped=1)


def test_a_vote_of_another_key_is_refused_and_leaves_the_owners(store: SqlStore) -> None:
    store.import_rows("f", 0, 1, [vote("r1", 1.0, key="thief"), vote("r1", 5.0, key="key")])

    taken = store.import_rows("f", 1, 2, [request_row("r1", key="key")])
    later = store.import_rows("f", 2, 3, [vote("r1", 2.0, key="thief", time=NOON + 5)])

    assert (taken.unwanted, later.unwanted) == (1, 1)
    assert totals(store) == [("a", 1, 5.0)]


def test_the_vote_rate_counts_each_request_with_a_vote_once(store: SqlStore) -> None:
    rows = [request_row(f"r{number}", variant="ab"[number % 2]) for number in range(6)]
    store.import_rows("f", 0, 1, [*rows[:3], vote("r0", 1.0), vote("r0", 0.0, metric="other")])
    first = totals(store, "vote_rate")
    store.import_rows("f", 1, 2, [vote("r4", 2.0), vote("r1", None, comment="words alone")])
    store.import_rows("f", 2, 3, rows[3:])
    both = totals(store, "vote_rate")

    store.import_rows("f", 3, 4, [vote("r4", None, comment="a word instead", time=NOON + 1)])
    store.remove_vote("e", "stars", "r0")
    other_left = totals(store, "vote_rate")
    store.remove_vote("e", "other", "r0")

    assert first == [("a", 2, 1.0), ("b", 1, 0.0)]
    assert both == [("a", 3, 2.0), ("b", 3, 0.0)]
    assert other_left == [("a", 3, 1.0), ("b", 3, 0.0)]
    assert totals(store, "vote_rate") == [("a", 3, 0.0), ("b", 3, 0.0)]


def test_a_vote_cannot_pass_for_a_measurement_of_ours(store: SqlStore) -> None:
    taken = store.import_rows("f", 0, 1, [request_row("r1"), vote("r1", 99.0, metric="error")])

    assert taken.unwanted == 1
    assert totals(store, "error") == [("a", 1, 0.0)]


def test_votes_whose_request_never_comes_are_dropped_after_a_day(store: SqlStore) -> None:
    store.import_rows("f", 0, 1, [vote("r1", 1.0), vote("r2", 1.0, time=NOON + DAY)])

    dropped = store.prune(0.0, NOON + DAY / 2)
    store.import_rows("f", 1, 2, [request_row("r1"), request_row("r2")])

    assert dropped == 1
    assert totals(store) == [("a", 1, 1.0)]


@pytest.mark.parametrize("text", ["a\0b", "\U0001f600 \u2028"])
def test_texts_that_clients_make_up_do_not_stop_the_import(text: str, store: SqlStore) -> None:
    taken = store.import_rows(
        "f", 0, 1, [request_row("r1"), vote("r1", None, metric=text, comment=text)]
    )

    assert (taken.rows, taken.rejected) == (2, 0)


def test_a_row_that_no_database_takes_costs_no_other_row(store: SqlStore) -> None:
    rows = [request_row("r1"), request_row("r2", tokens=2**70), request_row("r3")]

    taken = store.import_rows("f", 0, 1, rows)

    assert (taken.rows, taken.rejected, taken.unwanted) == (3, 1, 0)
    assert taken.why
    assert [store.known_request(name) is not None for name in ("r1", "r2", "r3")] == [
        True,
        False,
        True,
    ]
    assert store.position("f") == 1
