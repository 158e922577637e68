"""`GET /admin/series`: traffic, errors, latencies and tokens over time, by model and backend."""

import time
from collections.abc import Callable, Mapping
from typing import Annotated

from litestar import get
from litestar.handlers import HTTPRouteHandler
from litestar.params import FromQuery, QueryParameter
from msgspec import Struct

from strowger_gateway.gateway.assembly.gateway import Gateway
from strowger_gateway.gateway.console.admin.access import SCHEME
from strowger_gateway.gateway.console.admin.traffic.reader import (
    Source,
    TrafficRead,
    TrafficReader,
)
from strowger_gateway.gateway.storage.sql.traffic.counting import QuantileSketch, TrafficCell
from strowger_gateway.gateway.storage.sql.traffic.queries import TrafficFilter
from strowger_gateway.gateway.storage.sql.traffic.windows import (
    IN_MEMORY,
    STEPS,
    Window,
    span_of,
)
from strowger_gateway.schemas.errors import Unavailable

ModelFilter = Annotated[str | None, QueryParameter(description="only this model, as configured")]
BackendFilter = Annotated[
    str | None, QueryParameter(description="only this backend, as PROVIDER/MODEL")
]
KeyFilter = Annotated[
    str | None, QueryParameter(name="key", description="only requests of the key of this name")
]
TeamFilter = Annotated[
    str | None, QueryParameter(description="only requests of keys of this team at that time")
]


class LatencySummary(Struct, frozen=True, kw_only=True):
    """Durations in milliseconds; quantiles are accurate to 5 %, and null without requests."""

    count: int
    p50_ms: float | None
    p90_ms: float | None
    p95_ms: float | None
    p99_ms: float | None


class PointView(Struct, frozen=True, kw_only=True):
    """Counts for `step_s` seconds from `time`, Unix seconds.

    requests: that ended with this backend. errors: of these, failures of backends or of the
    gateway: 5xx, broken off, or 429 because of backends. client_errors: what the client sent was
    wrong. refused: by the gateway's own rules, such as limits, budgets and guardrails.
    attempts: at this backend. failed: failed attempts. Durations are of successful responses.
    """

    time: int
    requests: int
    errors: int
    client_errors: int
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
    """Intervals without traffic have no point; the last is incomplete. begin, end: Unix seconds.

    source: `all_gateways` that share the store; of this gateway only if there is `no_store`, or for
    as long as it is away (`store_away`). Requests of other gateways are in it once stored, about
    two seconds after their end. Those without a valid key are never stored: of them, it has this
    gateway's.
    """

    window: Window
    step_s: int
    begin: int
    end: int
    source: Source
    series: list[BackendSeriesView]


def series_route(current: Callable[[], Gateway], reader: TrafficReader) -> HTTPRouteHandler:
    @get(
        "/series",
        summary="Traffic, errors, latencies and tokens of all gateways, over 5 minutes to 30 days",
        role="viewer",
        security=[{SCHEME: []}],
    )
    async def series(
        window: FromQuery[Window] = "5m",
        model: ModelFilter = None,
        backend: BackendFilter = None,
        key: KeyFilter = None,
        team: TeamFilter = None,
    ) -> SeriesView:
        only, at = TrafficFilter(model, backend, key, team), time.time()
        if current().store is None and (only.of_whom or window not in IN_MEMORY):
            raise Unavailable(
                "traffic of more than an hour, of a key or of a team is read from the store, and "
                "this gateway has none"
            )
        found = await reader.read(window, at, only)
        if found.source == "store_away" and (only.of_whom or window not in IN_MEMORY):
            raise Unavailable("the store does not answer", retry_after=1)
        return series_view(found, window, at)

    return series


def series_view(found: TrafficRead, window: Window, now: float) -> SeriesView:
    begin, end = span_of(window, now)
    return SeriesView(
        window=window,
        step_s=STEPS[window],
        begin=begin,
        end=end,
        source=found.source,
        series=[
            BackendSeriesView(
                model=series.model,
                backend=series.backend,
                points=[_point(cell) for cell in series.cells],
            )
            for series in found.by_backend
        ],
    )


def _point(cell: TrafficCell) -> PointView:
    return PointView(
        time=cell.time,
        requests=cell.requests,
        errors=cell.errors,
        client_errors=cell.client_errors,
        refused=cell.refused,
        attempts=cell.attempts,
        failed=cell.failed,
        prompt_tokens=cell.prompt_tokens,
        completion_tokens=cell.completion_tokens,
        time_to_first_token=_summary(cell.ttft),
        latency=_summary(cell.latency),
    )


def _summary(counts: Mapping[int, int]) -> LatencySummary:
    sketch = QuantileSketch(counts)
    return LatencySummary(
        count=sketch.count,
        p50_ms=_rounded(sketch.quantile(0.5)),
        p90_ms=_rounded(sketch.quantile(0.9)),
        p95_ms=_rounded(sketch.quantile(0.95)),
        p99_ms=_rounded(sketch.quantile(0.99)),
    )


def _rounded(ms: float | None) -> float | None:
    return None if ms is None else float(f"{ms:.3g}")
