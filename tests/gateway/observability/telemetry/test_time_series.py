"""Time series of the last hour: counts, retention, and merging over processes."""

import random

import msgspec
import pytest

from strowger_gateway.gateway.observability.telemetry.access_log import AccessLine, grouped
from strowger_gateway.gateway.routing.request_record import AttemptRecord
from strowger_gateway.gateway.storage.sql.traffic.counting import (
    QuantileSketch,
    TimeSeries,
    TrafficCell,
)
from strowger_gateway.gateway.storage.sql.traffic.series import by_backend, merge_series, total
from strowger_gateway.gateway.storage.sql.traffic.windows import CELLS, IN_MEMORY, STEPS, Window

T = 1_800_000_000
"""A time at which cells of every window begin."""


def line(
    at: float,
    *attempts: AttemptRecord,
    status: int = 200,
    error: str = "",
    ms: float = 100.0,
    ttft_ms: float | None = None,
) -> AccessLine:
    return AccessLine(
        time=at,
        request_id="r",
        surface="openai",
        status=status,
        ms=ms,
        route="chat",
        error=error,
        ttft_ms=ttft_ms,
        attempts=attempts,
        prompt_tokens=7,
        completion_tokens=3,
    )


def ok(backend: str = "a/m") -> AttemptRecord:
    return AttemptRecord(backend=backend, outcome="ok")


def cells(
    series: TimeSeries, at: float, window: Window = "5m"
) -> dict[str, tuple[TrafficCell, ...]]:
    return {one.backend: one.cells for one in by_backend(series, window, at)}


def test_a_request_counts_where_it_ended_and_an_attempt_where_it_was_made() -> None:
    series = TimeSeries()

    series.add(
        grouped([line(T + 1, AttemptRecord(backend="a/m", outcome="upstream_error"), ok("b/m"))])
    )

    by_backend = cells(series, T + 2)
    (a,), (b,) = by_backend["a/m"], by_backend["b/m"]
    assert (a.requests, a.attempts, a.failed) == (0, 1, 1)
    assert (b.requests, b.attempts, b.failed) == (1, 1, 0)
    assert (b.prompt_tokens, b.completion_tokens, a.completion_tokens) == (7, 3, 0)


@pytest.mark.parametrize(
    ("status", "error", "expected"),
    [
        (200, "", (0, 0, 0)),
        (200, "upstream_timeout", (1, 0, 0)),
        (429, "upstream_busy", (1, 0, 0)),
        (502, "upstream_broken", (1, 0, 0)),
        (400, "invalid_request", (0, 1, 0)),
        (403, "upstream_rejected", (0, 1, 0)),
        (400, "content_blocked", (0, 0, 1)),
        (499, "client_closed", (0, 0, 0)),
    ],
)
def test_failures_of_backends_are_separate_from_errors_of_callers(
    status: int, error: str, expected: tuple[int, int, int]
) -> None:
    series = TimeSeries()

    series.add(grouped([line(T, ok(), status=status, error=error)]))

    (cell,) = cells(series, T)["a/m"]
    assert (cell.errors, cell.client_errors, cell.refused) == expected


@pytest.mark.parametrize(
    ("status", "error", "route", "expected"),
    [
        (429, "limit_exceeded", "chat", (0, 1)),
        (429, "budget_exceeded", "chat", (0, 1)),
        (429, "too_many_wrong_keys", "", (0, 1)),
        (429, "rate_limit_exceeded", "", (0, 1)),
        (403, "price_unknown", "chat", (0, 1)),
        (403, "model_not_allowed", "chat", (0, 1)),
        (429, "rate_limit_exceeded", "chat", (1, 0)),
    ],
)
def test_what_the_operators_own_rules_refuse_is_no_error(
    status: int, error: str, route: str, expected: tuple[int, int]
) -> None:
    """The last one is a 429 without attempts, because every backend cools down."""
    series, whole = TimeSeries(), line(T, status=status, error=error)

    series.add(grouped([msgspec.structs.replace(whole, route=route)]))

    (found,) = by_backend(series, "5m", T)
    (cell,) = found.cells
    assert (cell.errors, cell.refused) == expected


def test_a_mirrors_answer_is_an_attempt_and_not_where_the_request_ended() -> None:
    series = TimeSeries()

    series.add(
        grouped([line(T, ok("a/m"), AttemptRecord(backend="b/m", outcome="ok", role="mirror"))])
    )

    by_backend = cells(series, T)
    assert by_backend["a/m"][0].requests == 1
    assert (by_backend["b/m"][0].requests, by_backend["b/m"][0].attempts) == (0, 1)


def test_an_attempt_that_lost_a_race_did_not_fail() -> None:
    series = TimeSeries()

    series.add(
        grouped([line(T, AttemptRecord(backend="a/m", outcome="lost", role="hedge"), ok("b/m"))])
    )

    (cell,) = cells(series, T)["a/m"]
    assert (cell.attempts, cell.failed, cell.requests) == (1, 0, 0)


def test_a_refusal_without_a_call_is_not_an_attempt() -> None:
    series = TimeSeries()

    series.add(
        grouped([line(T, AttemptRecord(backend="a/m", refused=True), status=400, error="x")])
    )

    assert cells(series, T)["a/m"][0].attempts == 0


@pytest.mark.parametrize("window", IN_MEMORY)
def test_every_window_has_its_cells_and_forgets_what_is_older(window: Window) -> None:
    series, step, count = TimeSeries(), STEPS[window], CELLS[window]
    for number in range(2 * count * step // 5):
        series.add(grouped([line(T + 5 * number, ok())]))

    now = T + 2 * count * step - 1
    (found,) = cells(series, now, window).values()

    assert [cell.time for cell in found] == list(range(T + count * step, now, step))
    assert {cell.requests for cell in found} == {step // 5}


def test_after_a_pause_only_what_is_within_the_window_is_left() -> None:
    series = TimeSeries()
    series.add(grouped([line(T, ok())]))

    later = T + 400

    assert cells(series, later, "5m") == {"a/m": ()}
    assert len(cells(series, later, "15m")["a/m"]) == 1


def test_a_line_that_comes_late_is_counted_all_the_same() -> None:
    series = TimeSeries()

    series.add(grouped([line(T + 5, ok()), line(T + 4, ok())]))

    assert [cell.requests for cell in cells(series, T + 6)["a/m"]] == [2]


def test_several_processes_add_up_to_what_one_would_have_counted() -> None:
    draw = random.Random(5)
    lines = [
        line(T + at / 2, ok(draw.choice(["a/m", "b/m"])), ms=draw.lognormvariate(5, 1), ttft_ms=9.0)
        for at in range(300)
    ]
    parts, alone = [TimeSeries(), TimeSeries(), TimeSeries()], TimeSeries()
    for number, one in enumerate(lines):
        parts[number % 3].add(grouped([one]))
    alone.add(grouped(lines))

    together = merge_series([by_backend(part, "15m", T + 150) for part in parts])

    assert together == by_backend(alone, "15m", T + 150)
    assert total(cell for series in together for cell in series.cells).requests == 300


def test_quantiles_are_within_five_per_cent_of_the_true_ones() -> None:
    draw = random.Random(7)
    values = sorted(draw.lognormvariate(4, 2) for _ in range(5000))
    sketch = QuantileSketch()

    sketch.add(values)

    for share in (0.01, 0.5, 0.9, 0.99, 1.0):
        true = values[int(share * (len(values) - 1))]
        assert sketch.quantile(share) == pytest.approx(true, rel=0.05)


def test_no_values_have_no_quantile() -> None:
    assert QuantileSketch().quantile(0.5) is None


def test_no_time_at_all_is_a_time_too() -> None:
    sketch = QuantileSketch()

    sketch.add([0.0])

    assert sketch.quantile(0.5) == pytest.approx(0.01, rel=0.05)
