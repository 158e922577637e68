"""`GET /admin/series`: traffic, errors, latencies and tokens over time, by model and backend."""

import time
from collections.abc import Callable, Sequence

from litestar import get
from litestar.handlers import HTTPRouteHandler
from litestar.params import FromQuery
from msgspec import Struct

from strowger_gateway.gateway.assembly.gateway import Gateway
from strowger_gateway.gateway.console.admin.access import SCHEME
from strowger_gateway.gateway.observability.telemetry.time_series import (
    CELLS,
    STEPS,
    BackendSeries,
    QuantileSketch,
    TrafficCell,
    Window,
)


class LatencySummary(Struct, frozen=True, kw_only=True):
    """Durations in milliseconds; quantiles are accurate to 5 %, and null without requests."""

    count: int
    p50_ms: float | None
    p90_ms: float | None
    p99_ms: float | None


class PointView(Struct, frozen=True, kw_only=True):
    """Counts for `step_s` seconds from `time`, Unix seconds.

    requests: that ended with this backend. errors: 5xx, broken off, or 429 because of backends.
    refused: other 4xx, and 429 by limits and budgets of the gateway, which are not errors.
    attempts: at this backend. failed: failed attempts. Durations are of successful responses.
    """

    time: int
    requests: int
    errors: int
    refused: int
    attempts: int
    failed: int
    prompt_tokens: int
    completion_tokens: int
    time_to_first_token: LatencySummary
    latency: LatencySummary


class BackendSeriesView(Struct, frozen=True, kw_only=True):
    """One backend of one model, both as configured. Backend "": none was tried."""

    model: str
    backend: str
    points: list[PointView]


class SeriesView(Struct, frozen=True, kw_only=True):
    """Intervals without traffic have no point; the last is incomplete. begin, end: Unix seconds."""

    window: Window
    step_s: int
    begin: int
    end: int
    series: list[BackendSeriesView]


def series_route(current: Callable[[], Gateway]) -> HTTPRouteHandler:
    @get(
        "/series",
        summary="Traffic, errors, latencies and tokens over the last 5 minutes, 15 minutes or hour",
        role="viewer",
        security=[{SCHEME: []}],
    )
    async def series(window: FromQuery[Window] = "5m") -> SeriesView:
        at = time.time()
        return viewed(await current().processes.series_by_backend(window, at), window, at)

    return series


def viewed(by_backend: Sequence[BackendSeries], window: Window, now: float) -> SeriesView:
    begin, end = span_of(window, now)
    return SeriesView(
        window=window,
        step_s=STEPS[window],
        begin=begin,
        end=end,
        series=[
            BackendSeriesView(
                model=series.model,
                backend=series.backend,
                points=[_point(cell) for cell in series.cells],
            )
            for series in by_backend
        ],
    )


def span_of(window: Window, now: float) -> tuple[int, int]:
    """The window's start and end, Unix seconds, aligned to its cells."""
    step = STEPS[window]
    end = (int(now) // step + 1) * step
    return end - CELLS * step, end


def _point(cell: TrafficCell) -> PointView:
    return PointView(
        time=cell.time,
        requests=cell.requests,
        errors=cell.errors,
        refused=cell.refused,
        attempts=cell.attempts,
        failed=cell.failed,
        prompt_tokens=cell.prompt_tokens,
        completion_tokens=cell.completion_tokens,
        time_to_first_token=_summary(cell.ttft),
        latency=_summary(cell.latency),
    )


def _summary(counts: dict[int, int]) -> LatencySummary:
    sketch = QuantileSketch(counts)
    return LatencySummary(
        count=sketch.count,
        p50_ms=_rounded(sketch.quantile(0.5)),
        p90_ms=_rounded(sketch.quantile(0.9)),
        p99_ms=_rounded(sketch.quantile(0.99)),
    )


def _rounded(ms: float | None) -> float | None:
    return None if ms is None else float(f"{ms:.3g}")
