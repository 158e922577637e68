"""Traffic in the store: each request exactly once, in every window, however late and how often."""

import random
import time
from collections import defaultdict
from collections.abc import Callable, Sequence

import pytest
from msgspec.structs import replace

from strowger_gateway.gateway.storage.sql.rows import RequestRow, RowAttempt
from strowger_gateway.gateway.storage.sql.sql import SqlStore
from strowger_gateway.gateway.storage.sql.traffic.counting import QuantileSketch
from strowger_gateway.gateway.storage.sql.traffic.queries import (
    EVERYTHING,
    TrafficFilter,
    TrafficRows,
)
from strowger_gateway.gateway.storage.sql.traffic.series import BackendSeries
from strowger_gateway.gateway.storage.sql.traffic.windows import CELLS, STEPS, Window, span_of
from tests.gateway.storage.sql.rows import request_row

DAY_S = 86_400.0
ENDS = {200: "answered", 400: "client_errors", 429: "refused", 502: "errors"}
_Cell = tuple[str, str, int]


def drawn(draws: random.Random, number: int, age_s: float) -> RequestRow:
    """One request that ended so long ago; a status of ENDS, one or two attempts."""
    status, backend = draws.choice(list(ENDS)), draws.choice(["a/m", "b/m"])
    attempted = [RowAttempt(backend, "", "ok" if status == 200 else "upstream_failed")]
    if draws.random() < 0.2:
        attempted.insert(0, RowAttempt("c/m-7", "c/*", "upstream_timeout"))
    row = request_row(
        f"r{number}",
        status=status,
        error={429: "limit_exceeded", 502: "upstream_failed", 400: "invalid_request"}.get(
            status, ""
        ),
        key=f"k{draws.randrange(3)}",
        time=time.time() - age_s,
        tokens=3,
        experiment="",
    )
    return replace(
        row,
        team=draws.choice(["", "red", "blue"]),
        route=draws.choice(["chat", "code"]),
        ms=draws.lognormvariate(4, 1),
        attempted=() if status == 429 else tuple(attempted),
    )


def counted(
    rows: Sequence[RequestRow], window: Window, now: float, wanted: Callable[[RequestRow], bool]
) -> dict[_Cell, dict[str, int]]:
    """Count anew, one by one: requests, how they ended, and attempts."""
    step, (begin, end) = STEPS[window], span_of(window, now)
    cells: defaultdict[_Cell, dict[str, int]] = defaultdict(lambda: defaultdict(int))
    for row in rows:
        if not (begin <= row.time < end and wanted(row)):
            continue
        at = int(row.time) // step * step
        backend = row.attempted[-1].backend if row.attempted else ""
        cell = cells[row.route, backend, at]
        cell["requests"] += 1
        cell[ENDS[row.status]] += 1
        for attempt in row.attempted:
            tried = cells[row.route, attempt.pattern or attempt.backend, at]
            tried["attempts"] += 1
            tried["failed"] += attempt.outcome != "ok"
    return {at: dict(cell) for at, cell in cells.items()}


def read(series: Sequence[BackendSeries]) -> dict[_Cell, dict[str, int]]:
    found: dict[_Cell, dict[str, int]] = {}
    for one in series:
        for cell in one.cells:
            counts = {
                "requests": cell.requests,
                "errors": cell.errors,
                "client_errors": cell.client_errors,
                "refused": cell.refused,
                "attempts": cell.attempts,
                "failed": cell.failed,
                "answered": QuantileSketch(cell.latency).count,
            }
            found[one.model, one.backend, cell.time] = {
                name: count for name, count in counts.items() if count
            }
    return found


def without_zeros(cells: dict[_Cell, dict[str, int]]) -> dict[_Cell, dict[str, int]]:
    return {
        at: {name: count for name, count in cell.items() if count} for at, cell in cells.items()
    }


def test_every_window_has_each_request_once_however_late_it_comes(store: SqlStore) -> None:
    """Imports fold what is old. Requests come in any order, and some files come twice."""
    draws = random.Random(3)
    ages = [draws.choice([60, 900, 5000, 90_000, 200_000, 30 * DAY_S]) for _ in range(400)]
    rows = [drawn(draws, number, draws.random() * age) for number, age in enumerate(ages)]
    draws.shuffle(rows)
    for number in range(0, len(rows), 40):
        some = rows[number : number + 40]
        store.import_rows("f", number, number + 40, some)
        if draws.random() < 0.5:
            store.import_rows("again", 0, 40, some)
            store.forget("again")

    traffic, now = TrafficRows(store.database), time.time()
    for window in STEPS:
        assert read(traffic.series(window, now)) == without_zeros(
            counted(rows, window, now, lambda row: True)
        )
    filters: list[tuple[TrafficFilter, Callable[[RequestRow], bool]]] = [
        (TrafficFilter(key="k1"), lambda row: row.key == "k1"),
        (TrafficFilter(team="red"), lambda row: row.team == "red"),
        (TrafficFilter("code", None, "k2", "blue"), lambda row: (
            (row.route, row.key, row.team) == ("code", "k2", "blue")
        )),
    ]  # fmt: skip
    for only, wanted in filters:
        assert read(traffic.series("30d", now, only)) == without_zeros(
            counted(rows, "30d", now, wanted)
        )


def test_only_a_backend_leaves_out_the_others(store: SqlStore) -> None:
    draws = random.Random(4)
    rows = [drawn(draws, number, 30.0) for number in range(60)]
    store.import_rows("f", 0, 1, rows)

    found = TrafficRows(store.database).series("1h", time.time(), TrafficFilter(backend="a/m"))

    assert {one.backend for one in found} == {"a/m"}
    assert {one.model for one in found} == {"chat", "code"}


def test_quantiles_come_from_the_durations_of_all_imports(store: SqlStore) -> None:
    draws = random.Random(5)
    durations = sorted(draws.lognormvariate(4, 1) for _ in range(1000))
    now = time.time()
    rows = [
        replace(request_row(f"r{number}", time=now, experiment=""), ms=ms)
        for number, ms in enumerate(durations)
    ]
    draws.shuffle(rows)
    for number in range(10):
        store.import_rows("f", number, number + 1, rows[100 * number : 100 * number + 100])

    (one,) = TrafficRows(store.database).series("5m", now)
    whole = QuantileSketch()
    for cell in one.cells:
        whole.merge(cell.latency)

    assert whole.count == 1000
    for share in (0.5, 0.95, 0.99):
        true = durations[int(share * 999)]
        assert whole.quantile(share) == pytest.approx(true, rel=0.06)


def test_what_is_older_than_a_month_or_than_requests_are_kept_goes(store: SqlStore) -> None:
    now = time.time()
    rows = [
        replace(request_row(f"r{day}", time=now - day * DAY_S, experiment=""), key=f"k{day}")
        for day in (1, 20, 29, 40)
    ]
    store.import_rows("f", 0, 1, rows)
    traffic = TrafficRows(store.database)

    store.prune(now - 90 * DAY_S, now - DAY_S)
    months = traffic.names().keys
    store.prune(now - 25 * DAY_S, now - DAY_S)

    assert months == ("k1", "k20", "k29")
    assert traffic.names().keys == ("k1", "k20")
    assert sum(len(one.cells) for one in traffic.series("30d", now)) == 2


def test_what_has_moved_takes_fewer_rows_and_says_the_same(store: SqlStore) -> None:
    now = time.time()
    begin = (int(now) // 3600 - 30) * 3600
    rows = [
        request_row(f"r{number}", time=float(begin + number * 5), experiment="")
        for number in range(1440)
    ]
    store.import_rows("f", 0, 1, rows)
    traffic = TrafficRows(store.database)
    before = traffic.series("7d", now)

    store.prune(0.0, now - DAY_S)

    with store.database.reading() as session:
        spans = session.rows(tuple[int, int], "SELECT span, COUNT(*) FROM traffic_sums GROUP BY 1")
    assert traffic.series("7d", now) == before
    # Two hours, of all clients and of one key.
    assert dict(spans) == {3600: 4}


def test_names_with_a_nul_are_stored_and_found_again(store: SqlStore) -> None:
    row = replace(request_row("r", time=time.time(), experiment=""), route="a\0b")
    store.import_rows("f", 0, 1, [row])
    store.import_rows("f", 1, 2, [replace(row, request_id="s")])

    (one,) = TrafficRows(store.database).series("5m", time.time(), EVERYTHING)

    assert one.model == "a\ufffdb"
    assert sum(cell.requests for cell in one.cells) == 2


@pytest.mark.parametrize("window", list(STEPS))
def test_a_window_is_whole_cells_and_ends_after_now(window: Window) -> None:
    begin, end = span_of(window, 1_800_000_123.4)

    assert begin % STEPS[window] == end % STEPS[window] == 0
    assert end - begin == CELLS[window] * STEPS[window]
    assert end - STEPS[window] <= 1_800_000_123.4 < end
