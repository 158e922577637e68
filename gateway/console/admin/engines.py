"""`GET /admin/engines`: the state of every engine process and of its models."""

from collections.abc import Callable, Sequence

import msgspec
from litestar import get
from litestar.handlers import HTTPRouteHandler
from msgspec import Struct

from strowger_gateway.gateway.assembly.gateway import Gateway
from strowger_gateway.gateway.backends.engines.process.process import State
from strowger_gateway.gateway.console.admin.access import SCHEME
from strowger_gateway.gateway.observability.telemetry.engine_reports import EngineReport
from strowger_gateway.local_engine.protocol.stats import Histogram, Stats


class Times(Struct, frozen=True, kw_only=True):
    """Summary of a histogram: the count, and seconds. The values are null if the count is 0."""

    count: int
    mean_s: float | None
    p50_s: float | None
    p90_s: float | None
    p99_s: float | None


class EngineModelView(Struct, frozen=True, kw_only=True):
    """One model: its Stats with computed ratios. Counters start when the model is loaded."""

    running: int
    waiting: int
    blocks_total: int
    blocks_free: int
    cache_used_share: float
    cache_bytes: int
    weights_bytes: int
    loaded_since: float
    steps: int
    preemptions: int
    computed_tokens: int
    num_input_tokens: int
    num_output_tokens: int
    cached_tokens: int
    prefix_hit_rate: float
    total_draft_tokens: int
    total_accepted_draft_tokens: int
    acceptance_rate: float
    kv_cache_alloc_new_blocks: int
    kv_cache_reused_blocks: int
    kv_cache_alloc_total_blocks: int
    finished: dict[str, int]
    queue_time: Times
    time_to_first_token: Times
    time_between_tokens: Times
    step_time: Times


class EngineProcessView(Struct, frozen=True, kw_only=True):
    """One engine process. `up` is false if it did not respond; its models are then unknown.

    address: of an engine on another machine, HOST:PORT; "" for one of this machine. host: the name
    of the machine, "" while it is unknown.
    """

    name: str
    address: str
    host: str
    up: bool
    state: State
    status: str
    pid: int | None
    uptime_s: float
    restarts: int
    device: str
    dtype: str
    threads: int
    resident_bytes: int
    models: dict[str, EngineModelView]


class EngineList(Struct, frozen=True, kw_only=True):
    engines: list[EngineProcessView]


def engines_route(current: Callable[[], Gateway]) -> HTTPRouteHandler:
    @get(
        "/engines",
        summary="The state of every engine process and of its models",
        role="viewer",
        security=[{SCHEME: []}],
    )
    async def engines() -> EngineList:
        return listed(await current().processes.engine_reports())

    return engines


def listed(reports: Sequence[EngineReport]) -> EngineList:
    return EngineList(engines=[_engine(report) for report in reports])


def _engine(report: EngineReport) -> EngineProcessView:
    return EngineProcessView(
        name=report.name,
        address=report.address,
        host=report.machine.host,
        up=report.up,
        state=report.state,
        status=report.status,
        pid=report.pid,
        uptime_s=report.uptime_s,
        restarts=report.restarts,
        device=report.machine.device,
        dtype=report.machine.dtype,
        threads=report.machine.threads,
        resident_bytes=report.machine.resident_bytes,
        models={name: _model(stats) for name, stats in report.models.items()},
    )


def _model(stats: Stats) -> EngineModelView:
    """Copy each field under the same name, with histograms summarised."""
    values: dict[str, object] = {}
    for field in msgspec.structs.fields(EngineModelView):
        value: object = getattr(stats, field.name)
        values[field.name] = _times(value) if isinstance(value, Histogram) else value
    return msgspec.convert(values, EngineModelView)


def _times(histogram: Histogram) -> Times:
    count = histogram.count
    return Times(
        count=count,
        mean_s=histogram.sum / count if count else None,
        p50_s=histogram.quantile(0.5),
        p90_s=histogram.quantile(0.9),
        p99_s=histogram.quantile(0.99),
    )
