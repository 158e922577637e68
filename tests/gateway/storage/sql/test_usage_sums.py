"""The sums of usage: exact, each request once, and what older programs have recorded is in them."""

import random
from collections import defaultdict

import pytest
from msgspec.structs import replace

from strowger_gateway.gateway.storage.sql.rows import AttemptRow, RequestRow
from strowger_gateway.gateway.storage.sql.sql import SqlStore
from strowger_gateway.gateway.storage.sql.usage_rows import OTHERS
from tests.gateway.storage.sql.rows import NOON, attempt_row, request_row
from tests.gateway.storage.sql.used import used

BEFORE_SUMS = 10
"""Migrations of the last version without sums of usage."""


def test_sums_are_those_of_the_attempts_exactly(store: SqlStore) -> None:
    """Floats of US dollars in integers of 10⁻⁹, by every name, over many imports."""
    draws, expected = random.Random(1), defaultdict[tuple[str, ...], list[int]](lambda: [0, 0, 0])
    for number in range(30):
        rows = list[RequestRow | AttemptRow]()
        for place in range(50):
            name, nanos = f"{number}-{place}", draws.randrange(10 ** draws.randrange(1, 12))
            key, team = f"k{draws.randrange(9)}", f"t{draws.randrange(3)}"
            at = NOON + draws.randrange(10_000)
            rows.append(replace(request_row(name, key=key, time=at), team=team))
            rows.append(attempt_row(name, time=at, cost=nanos / 1e9))
            cell = expected[key, team]
            cell[0] += 1
            cell[1] += nanos
            cell[2] += 7
        store.import_rows("f", number, number + 1, rows)

    assert {
        (row.key, row.team): [row.requests, row.cost_nano_usd, row.prompt_tokens]
        for row in used(store, "key,team")
    } == expected


def test_a_request_that_comes_twice_counts_once_and_so_does_a_copy(store: SqlStore) -> None:
    rows = [
        replace(request_row("r"), tags=("b", "a", "a")),
        attempt_row("r", 1, role="failed", cost=0.25),
        attempt_row("r", 2, cost=0.5),
    ]
    copy = replace(attempt_row("r", 3, role="mirror", cost=8.0), key="key", tags=("a", "b"))
    store.import_rows("f", 0, 1, [copy, *rows])
    store.import_rows("g", 0, 1, [*rows, copy])

    (row,) = used(store, "key,tags")
    assert (row.key, row.tags) == ("key", ("a", "b"))
    assert (row.requests, row.attempts) == (1, 3)
    assert (row.served_usd, row.cost_usd) == ("0.50", "8.75")


def test_the_tokens_that_no_backend_reported_are_counted_apart(store: SqlStore) -> None:
    lost = replace(
        attempt_row("r", 1, role="failed"), usage_source="estimated", completion_tokens=None
    )
    store.import_rows("f", 0, 1, [request_row("r"), lost, attempt_row("r", 2)])

    (row,) = used(store, "key")
    assert (row.prompt_tokens, row.estimated_tokens) == (14, 7)


def test_a_rejected_row_costs_no_other_row_its_place(store: SqlStore) -> None:
    rows = [
        request_row("good"),
        attempt_row("good", cost=0.5),
        request_row("bad", tokens=1 << 70),
        attempt_row("bad", cost=4.0),
        replace(attempt_row("good", 7, role="mirror", cost=1.0), key="key"),
        replace(attempt_row("good", 8, role="mirror"), key="key", prompt_tokens=1 << 70),
    ]
    store.import_rows("f", 0, 1, rows)

    (row,) = used(store, "key")
    assert (row.requests, row.attempts, row.cost_nano_usd) == (1, 2, 1_500_000_000)


def test_a_vendors_absurd_numbers_stop_no_import(store: SqlStore) -> None:
    for number in range(4):
        absurd = replace(attempt_row(f"{number}"), prompt_tokens=(1 << 62) + 1, cost_usd=None)
        store.import_rows("f", number, number + 1, [request_row(f"{number}"), absurd])

    (row,) = used(store, "key")
    assert (row.requests, row.prompt_tokens) == (4, 4 * 10**12)


def test_names_of_all_kinds_stay_apart(store: SqlStore) -> None:
    names = ["", "a", "A", "a ", 'quote"', "comma,", "ünï", "x" * 2000, "%", "'"]
    rows = list[RequestRow | AttemptRow]()
    for number, name in enumerate(names):
        row = replace(request_row(str(number)), route=name, tags=(name, "t") if name else ())
        rows += [row, replace(attempt_row(str(number)), backend=name)]
    store.import_rows("f", 0, 1, rows)
    store.import_rows("f", 1, 2, [replace(row, request_id=f"x{row.request_id}") for row in rows])

    found = used(store, "model,backend")
    assert [(row.model, row.backend, row.requests) for row in found] == [
        (name, name, 2) for name in sorted(names)
    ]
    assert {row.tag: row.requests for row in used(store, "tag")} == {
        **dict.fromkeys(names, 2),
        "t": 2 * (len(names) - 1),
    }


def test_usage_outlives_its_requests_until_it_is_too_old_itself(store: SqlStore) -> None:
    for number, key in enumerate(("old", "new")):
        at = NOON + number * 900
        rows = [request_row(key, key=key, time=at), attempt_row(key, time=at)]
        store.import_rows("f", number, number + 1, rows)

    store.prune(NOON + 5000, 0.0, NOON - 5000)
    outlived = [row.key for row in used(store, "key")]
    store.prune(NOON + 5000, 0.0, NOON + 1000)

    assert store.recorded_request("old") is None
    assert outlived == ["new", "old"]
    assert [row.key for row in used(store, "key")] == ["new"]


def test_a_request_counts_in_the_quarter_of_an_hour_in_which_it_ended(store: SqlStore) -> None:
    for number, at in enumerate((NOON, NOON + 899.999, NOON + 900)):
        rows = [request_row(f"{number}", time=at), attempt_row(f"{number}", time=at)]
        store.import_rows("f", number, number + 1, rows)
    begin = int(NOON // 900) * 900

    first, second = store.usage([(begin, begin + 900), (begin + 900, begin + 1800)])

    assert (first.period, first.counts.attempts) == (0, 2 - int(NOON % 900 > 0))
    assert (second.period, second.counts.attempts) == (1, 1 + int(NOON % 900 > 0))


def test_usage_has_the_client_program_the_callers_tags_and_the_provider(store: SqlStore) -> None:
    said = {"client": "codex", "request_tags": ("a=1", "b"), "end_user": "hash"}
    rows = [
        replace(request_row("r"), **said),
        attempt_row("r", cost=0.5),
        replace(attempt_row("r", 2, role="mirror", cost=1.0), key="key", **said),
        request_row("plain"),
        attempt_row("plain", cost=0.25),
    ]
    store.import_rows("f", 0, 1, rows)

    (row,) = used(store, "client,request_tags,end_user,provider,tags")[1:]
    assert (row.client, row.request_tags, row.end_user) == ("codex", ("a=1", "b"), "hash")
    assert (row.provider, row.tags, row.cost_usd) == ("remote", (), "1.50")
    spent = {one.request_tag: one.served_usd for one in used(store, "request_tag")}
    assert spent == {"": "0.25", "a=1": "0.50", "b": "0.50"}


def test_clients_that_choose_ever_new_tags_do_not_decide_how_much_is_stored(
    store: SqlStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("strowger_gateway.gateway.storage.sql.usage_rows.MOST_CLAIMED", 5)
    for number in range(4):
        rows = list[RequestRow | AttemptRow]()
        for place in range(5):
            name = f"{number}-{place}"
            rows += [replace(request_row(name), request_tags=(name,)), attempt_row(name, cost=0.5)]
        rows += [replace(request_row(f"c{number}", key="calm"), client="curl")]
        rows += [attempt_row(f"c{number}", cost=1.0)]
        store.import_rows("f", number, number + 1, rows)

    sums = used(store, "key,request_tag,client")
    found = {(one.key, one.request_tag, one.client): one for one in sums}
    assert len(found) == 7
    assert found["key", OTHERS, OTHERS].cost_usd == "7.50"
    assert found["key", "0-0", ""].cost_usd == "0.50"
    assert found["calm", "", "curl"].cost_usd == "4.00"
