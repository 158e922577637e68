"""Exclusions, keys of units, and late votes, on both databases."""

from typing import Literal

from strowger_gateway.gateway.storage.sql.base import RequestCounts
from strowger_gateway.gateway.storage.sql.experiments.exclusions import (
    ExcludedCounts,
    ExcludedName,
    counted,
    exclude,
    excluded_names,
    has_sent,
    include,
)
from strowger_gateway.gateway.storage.sql.experiments.key_shares import KeySent, sent_by_key
from strowger_gateway.gateway.storage.sql.experiments.late_votes import (
    VotesAfterPause,
    after_pauses,
)
from strowger_gateway.gateway.storage.sql.experiments.unit_pages import pages
from strowger_gateway.gateway.storage.sql.sql import SqlStore
from tests.gateway.storage.sql.rows import NOON, request_row, vote

HALVES = {"a": 50.0, "b": 50.0}


def name(kind: Literal["unit", "key"], of: str) -> ExcludedName:
    return ExcludedName(kind=kind, name=of, reason="a bot", by="root", at=NOON)


def crowd(store: SqlStore) -> None:
    """Key `k1` sends for u1 and u2, `k2` for u2 and u3; u3's request fails over."""
    store.epoch("e", "f", HALVES, 1.0)
    rows = [
        request_row("r1", unit="u1", key="k1"),
        request_row("r2", unit="u2", key="k1", variant="b"),
        request_row("r3", unit="u2", key="k2", variant="b"),
        request_row("r4", unit="u3", key="k2", fallback=True),
        request_row("x", unit="u3", key="k2", experiment="other"),
        *(vote(one, 2.0, key=key) for one, key in (("r1", "k1"), ("r3", "k2"), ("r4", "k2"))),
    ]
    store.import_rows("f", 0, 1, rows)


def test_an_excluded_key_is_in_no_query(store: SqlStore) -> None:
    crowd(store)
    with store.database.writing() as session:
        exclude(session, "e", name("key", "k2"))
        counts = counted(session, "e", "key", "k2")
        known = [has_sent(session, "e", "key", one) for one in ("k1", "k2", "k3")]
        known += [has_sent(session, "e", "unit", one) for one in ("u3", "u9")]

    assert counts == ExcludedCounts(units=2, requests=3, shared_units=1)
    assert known == [True, True, False, True, False]
    assert [cell.units for cell in store.outcomes("e", "error").cells] == [1]
    assert [cell.units for cell in store.outcomes("e", "stars").cells] == [1]
    assert [cell.units for cell in store.responses("e", "stars").cells] == [1]
    assert [arm.units for arm in store.counts("e")[0].arms] == [1, 0]
    assert [one.request_id for one in store.votes("e", "stars", 9)] == ["r1"]
    assert store.request_counts("e") == [
        RequestCounts(epoch=1, variant="a", requests=1, fallbacks=0, last=NOON),
        RequestCounts(epoch=1, variant="b", requests=0, fallbacks=0, last=NOON),
    ]
    assert [cell.units for cell in store.outcomes("other", "error").cells] == [1]
    with store.database.reading() as session:
        rows = [row for page in pages(session, "e") for row in page]
    assert {row.unit for row in rows if row.excluded} == {"u2", "u3"}


def test_what_comes_later_from_an_excluded_key_is_left_out_until_it_is_included(
    store: SqlStore,
) -> None:
    crowd(store)
    with store.database.writing() as session:
        exclude(session, "e", name("key", "k2"))
    store.import_rows("f", 1, 2, [request_row("r5", unit="u4", key="k2")])
    left = [cell.units for cell in store.outcomes("e", "error").cells]
    with store.database.writing() as session:
        listed = excluded_names(session, "e")
        ended = [include(session, "e", "key", "k2") for _ in range(2)]

    assert left == [1]
    assert listed == [name("key", "k2")]
    assert ended == [True, False]
    assert [cell.units for cell in store.outcomes("e", "error").cells] == [3, 1]


def test_a_unit_is_excluded_alone(store: SqlStore) -> None:
    crowd(store)
    with store.database.writing() as session:
        exclude(session, "e", name("unit", "u2"))
        counts = counted(session, "e", "unit", "u2")

    assert counts == ExcludedCounts(units=1, requests=2, shared_units=0)
    assert [cell.units for cell in store.outcomes("e", "error").cells] == [2]


def test_requests_and_votes_are_counted_by_key(store: SqlStore) -> None:
    crowd(store)
    with store.database.writing() as session:
        exclude(session, "e", name("unit", "u1"))
    with store.database.reading() as session:
        found = sent_by_key(session, "e")

    assert found == [
        KeySent(metric="", variant="a", key="k2", count=1, units=1),
        KeySent(metric="", variant="b", key="k1", count=1, units=1),
        KeySent(metric="", variant="b", key="k2", count=1, units=1),
        KeySent(metric="stars", variant="a", key="k2", count=1, units=1),
        KeySent(metric="stars", variant="b", key="k2", count=1, units=1),
    ]


def test_votes_after_a_pause_are_those_on_earlier_epochs_that_came_or_changed(
    store: SqlStore,
) -> None:
    rows = [
        *(request_row(f"r{number}", unit=f"u{number}") for number in range(4)),
        request_row("later", unit="u9", epoch=3),
        *(vote(f"r{number}", 1.0, key="key", time=NOON) for number in range(3)),
    ]
    store.import_rows("f", 0, 1, rows)
    again = [
        vote("r0", 2.0, key="key", time=NOON + 20),
        vote("r1", 1.0, key="key", time=NOON + 20),
        vote("r2", 3.0, key="key", time=NOON + 5),
        vote("r3", 1.0, key="key", time=NOON + 20),
        vote("later", 1.0, key="key", time=NOON + 30),
    ]
    store.import_rows("f", 1, 2, again)

    with store.database.reading() as session:
        found = after_pauses(session, "e", [(2, NOON + 10)])

    assert found == VotesAfterPause(added=1, changed=1)


def test_a_vote_that_comes_too_late_is_not_stored(store: SqlStore) -> None:
    store.define("e", "{}", 1.0, 3_600.0)
    requests = [request_row("r1", time=NOON), request_row("r2", time=NOON)]
    store.import_rows("f", 0, 1, [*requests, vote("r1", 1.0, key="key", time=NOON + 3_600)])

    late = store.import_rows("f", 1, 2, [vote("r1", 5.0, key="key", time=NOON + 3_601)])
    waiting = store.import_rows("f", 2, 3, [vote("r3", 5.0, key="key", time=NOON + 3_601)])
    came = store.import_rows("f", 3, 4, [request_row("r3", time=NOON)])

    assert (late.unwanted, waiting.unwanted, came.unwanted) == (1, 0, 1)
    assert [one.value for one in store.votes("e", "stars", 9)] == [1.0]
    known = store.known_request("r1")
    assert known is not None
    assert known.votes_until == NOON + 3_600
