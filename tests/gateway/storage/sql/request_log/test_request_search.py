"""The search over recorded requests: it finds exactly what its filters say, on both databases."""

from collections.abc import Iterator, Sequence
from operator import attrgetter
from random import Random

import pytest
from msgspec import convert
from msgspec.structs import replace

from strowger_gateway.gateway.storage.sql.payload_rows import StoredPayload
from strowger_gateway.gateway.storage.sql.request_log.filters import (
    RequestFilter,
    is_error,
    is_failed,
    matches,
)
from strowger_gateway.gateway.storage.sql.request_log.search import (
    ListPlace,
    RequestPage,
    RequestSearch,
    SearchBounds,
)
from strowger_gateway.gateway.storage.sql.rows import AttemptRow, RequestRow
from strowger_gateway.gateway.storage.sql.sql import SqlStore
from tests.gateway.storage.sql.rows import NOON, attempt_row, request_row

FEW = SearchBounds(chunks=(2, 3, 3), total=5, dense=3)
"""So that a dozen rows are more than one call reads."""

OUTCOMES = (
    (200, ""),
    (200, ""),
    (200, "upstream_broken"),
    (429, "limit_exceeded"),
    (429, "upstream_busy"),
    (404, "model_not_found"),
    (403, "price_unknown"),
    (400, "content_blocked"),
    (499, ""),
    (502, "upstream_failed"),
)
FILTERS = (
    RequestFilter(),
    *(
        RequestFilter(status=one)
        for one in (
            *("ok", "failed", "error", "client_error", "refused"),
            *("2xx", "4xx", "5xx", "200", "429", "499"),
        )
    ),
    RequestFilter(error="upstream_failed"),
    RequestFilter(model="chat"),
    RequestFilter(model="talk"),
    RequestFilter(backend="p/a"),
    RequestFilter(backend="p/b", status="failed"),
    RequestFilter(key="k1"),
    RequestFilter(team="t1", status="failed"),
    RequestFilter(team="t1", model="chat", key="k2"),
    RequestFilter(end_user="u1"),
    RequestFilter(tag="nightly"),
    RequestFilter(tag="of-the-key", status="failed"),
    RequestFilter(client="curl"),
    RequestFilter(client="curl", tag="nightly"),
    RequestFilter(experiment="trial"),
    RequestFilter(experiment="trial", variant="control", stream=True),
    RequestFilter(variant="treatment"),
    RequestFilter(surface="anthropic"),
    RequestFilter(surface="openai", stream=False),
    RequestFilter(stream=True),
    RequestFilter(id="client-3"),
    RequestFilter(id="id-00000"),
    RequestFilter(id="id-0"),
    RequestFilter(team="none-such"),
    RequestFilter(since=NOON + 7, until=NOON + 21, team="t1"),
    RequestFilter(since=NOON + 7, until=NOON + 7),
)
ROWS = 60


def made(seed: int = 1) -> Iterator[tuple[RequestRow, Sequence[AttemptRow]]]:
    """Several end at the same moment."""
    rng = Random(seed)
    for place in range(ROWS):
        status, error = rng.choice(OUTCOMES)
        request_id, time = f"id-{place:05}", NOON + rng.randrange(30)
        tried = [rng.choice(("p/a", "p/b", "p/c")) for _ in range(rng.randrange(4))]
        model = rng.choice(("chat", "other"))
        attempts = [
            replace(
                attempt_row(request_id, number, time=time, role="failed", cost=0.25), backend=name
            )
            for number, name in enumerate(tried, 1)
        ]
        if attempts:
            attempts[-1] = replace(attempts[-1], role="served")
        yield (
            replace(
                request_row(request_id, status=status, error=error, time=time, tokens=3),
                key=rng.choice(("k1", "k2", "")),
                team=rng.choice(("t1", "t2", "")),
                end_user=rng.choice(("u1", "", "", "")),
                route=rng.choice((model, "")),
                model=rng.choice((model, "talk")),
                backend=tried[-1] if tried else "",
                surface=rng.choice(("openai", "anthropic")),
                stream=rng.random() < 0.5,
                experiment=(trial := rng.choice(("trial", ""))),
                variant=rng.choice(("control", "treatment")) if trial else "",
                client_request_id=f"client-{place}" if place % 3 == 0 else "",
                total_cost_usd=0.25 * len(tried) if tried else None,
                prompt_tokens=7,
                client=rng.choice(("curl", "codex", "")),
                tags=("of-the-key",) if rng.random() < 0.3 else (),
                request_tags=rng.choice(((), ("nightly",), ("nightly", "of-the-key"))),
            ),
            attempts,
        )


def imported(store: SqlStore) -> list[tuple[RequestRow, Sequence[AttemptRow]]]:
    """Return what was imported, in several imports."""
    everything = list(made())
    for position, begin in enumerate(range(0, ROWS, 20)):
        rows = [row for one, tried in everything[begin : begin + 20] for row in (one, *tried)]
        store.import_rows("f", position, position + 1, rows)
    return everything


def pages(search: RequestSearch, wanted: RequestFilter, limit: int) -> Iterator[RequestPage]:
    page = search.page(wanted, limit)
    yield page
    while page.next is not None:
        page = search.page(wanted, limit, page.next)
        yield page


def test_pages_have_every_request_that_matches_once_and_no_other(store: SqlStore) -> None:
    everything = imported(store)
    newest = sorted(everything, key=lambda one: (one[0].time, one[0].request_id), reverse=True)
    found_any = 0
    for bounds in (FEW, SearchBounds()):
        search = RequestSearch(store.database, bounds)
        for wanted in FILTERS:
            expected = [
                row.request_id
                for row, tried in newest
                if matches(wanted, row, [one.backend for one in tried])
            ]
            found = list(pages(search, wanted, 4))

            ids = [one.request_id for page in found for one in page.requests]
            assert ids == expected, wanted
            assert all(len(page.requests) == 4 or page.searched for page in found[:-1]), wanted
            found_any += len(ids)
    assert found_any > 300


def test_totals_are_exact_or_of_the_newest(store: SqlStore) -> None:
    everything = imported(store)
    for wanted in FILTERS:
        rows = [
            row for row, tried in everything if matches(wanted, row, [one.backend for one in tried])
        ]
        for bounds in (FEW, SearchBounds()):
            found = RequestSearch(store.database, bounds).totals(wanted)

            since = found.since
            some = [row for row in rows if since is None or row.time >= since]
            assert bounds is FEW or since is None
            assert found.requests == len(some), wanted
            assert found.failed == sum(map(is_failed, some)), wanted
            assert found.errors == sum(is_failed(row) and is_error(row) for row in some), wanted
            assert found.cost_usd == sum(row.total_cost_usd or 0.0 for row in some), wanted
            assert found.unpriced == sum(row.total_cost_usd is None for row in some), wanted
            assert (found.prompt_tokens, found.completion_tokens) == (
                7 * len(some),
                3 * len(some),
            )


def test_a_page_that_found_little_says_where_it_stopped(store: SqlStore) -> None:
    rows = [
        replace(request_row(f"id-{place:05}", time=NOON + place), team="t", key=f"k{place}")
        for place in range(40)
    ]
    store.import_rows("f", 0, 1, rows)
    search = RequestSearch(store.database, FEW)

    page = search.page(RequestFilter(team="t", variant="b"), 4)

    assert not page.requests
    assert page.searched
    assert page.next == ListPlace(time=NOON + 32)


def test_requests_with_a_payload_are_found(store: SqlStore) -> None:
    everything = imported(store)
    kept = [row for row, _ in everything[::7]]
    store.payloads.add(
        [
            StoredPayload(
                request_id=row.request_id,
                time=row.time,
                key=row.key,
                team=row.team,
                model=row.model,
                status=row.status,
                error=row.error,
                size=2,
                record="{}",
            )
            for row in kept
        ],
        NOON,
        most=10**9,
        most_of_key=10**9,
    )
    search = RequestSearch(store.database, FEW)

    having = [
        one.request_id
        for page in pages(search, RequestFilter(payload=True), 4)
        for one in page.requests
    ]
    lacking = search.totals(RequestFilter(payload=False, since=NOON))

    assert sorted(having) == sorted(map(attrgetter("request_id"), kept))
    assert lacking.since is not None
    assert RequestSearch(store.database).totals(RequestFilter(payload=False)).requests == (
        ROWS - len(kept)
    )


def test_what_is_imported_is_seen_once_in_whole_imports(store: SqlStore) -> None:
    search = RequestSearch(store.database)
    batch, ids = search.newest_batch(), list[str]()
    assert batch == 0
    imported(store)
    for _ in range(5):
        new = search.imported_after(batch, 7)
        ids += [one.request_id for one in new.requests]
        batch = new.batch

    assert sorted(ids) == [f"id-{place:05}" for place in range(ROWS)]
    assert batch == search.newest_batch() == 3
    assert not search.imported_after(batch, 7).requests


@pytest.mark.parametrize("text", ["\0", "a'b", "%", "\U0010ffff", "x" * 3000])
def test_any_text_can_be_searched_for(text: str, store: SqlStore) -> None:
    imported(store)
    search = RequestSearch(store.database)
    for name in ("error", "model", "backend", "key", "team", "end_user", "tag", "client", "id"):
        wanted = convert({name: text}, RequestFilter)
        assert not search.page(wanted, 4).requests
        assert search.totals(wanted).requests == 0
