"""What all processes of the gateway have counted: this one, and the others, which it asks."""

import time
from collections.abc import Callable, Iterator, Sequence
from itertools import chain

from msgspec import Struct, field

from strowger_gateway.gateway.assembly.admission import Admission
from strowger_gateway.gateway.assembly.peers import NoPeers, Peers
from strowger_gateway.gateway.assembly.request_log import RequestLog
from strowger_gateway.gateway.assembly.runtime import Runtime
from strowger_gateway.gateway.governance.access.key_shares import KeyShares
from strowger_gateway.gateway.observability.telemetry.engine_reports import (
    EngineReport,
    EngineReports,
)
from strowger_gateway.gateway.observability.telemetry.metric_snapshot import (
    MetricFamilies,
    merge,
    render,
    snapshot,
)
from strowger_gateway.gateway.observability.telemetry.recent_requests import RecentRequest
from strowger_gateway.gateway.platform.clock import now
from strowger_gateway.gateway.routing.planning.enrolment import fingerprint
from strowger_gateway.gateway.storage.sql.traffic.series import BackendSeries, merge_series
from strowger_gateway.gateway.storage.sql.traffic.windows import Window


class ProcessStatus(Struct, kw_only=True, eq=False):
    """What operators are shown of a process.

    worker: its number among the workers. started_at: Unix seconds.
    config_rejected: the configuration file, as it is now, is invalid; an older one is in force.
    import_problem: why records are not imported now; "" if they are.
    """

    worker: int = 0
    started_at: int = field(default_factory=lambda: int(time.time()))
    config_rejected: bool = False
    import_problem: str = ""


class AllProcesses:
    """status: of this process. peers: the others; `NoPeers` if this process is the only one.

    clock: of the backends' state, to be replaced by tests.
    """

    def __init__(
        self,
        runtime: Callable[[], Runtime],
        log: RequestLog,
        admission: Admission,
        shares: KeyShares,
    ) -> None:
        """runtime: returns the generation in force."""
        self.status = ProcessStatus()
        self.peers: Peers = NoPeers()
        self.clock = now
        self._runtime = runtime
        self._log = log
        self._admission, self._shares = admission, shares
        self._reports = EngineReports()

    async def engine_reports(self) -> tuple[EngineReport, ...]:
        """The reports of the engine processes; an engine that is slow to answer is left out."""
        runtime = self._runtime()
        return await self._reports.gather(runtime.engines, runtime.links)

    async def metrics_text(self, accept: str = "") -> tuple[bytes, str]:
        """The metrics of all processes as a scraper accepts them, and their content type.

        Raises Unavailable if another process does not answer.
        """
        reports = await self.engine_reports()
        others = await self.peers.counted()
        return render(merge((self.counted(reports), *others)), accept)

    def counted(self, engines: Sequence[EngineReport] = ()) -> MetricFamilies:
        """The metrics of this process, and those of the engines given."""
        self._log.flush()
        metrics, runtime, at = self._log.metrics, self._runtime(), self.clock()
        metrics.in_flight.set(self._admission.in_flight)
        metrics.buffered.set(self._shares.buffered)
        metrics.available.clear()
        metrics.untried.clear()
        metrics.held.clear()
        metrics.experiments.paused.clear()
        for name, paused in _paused(runtime):
            metrics.experiments.paused.labels(name).set(paused)
        for name, backend in runtime.backends.items():
            model, _, place = name.partition(": ")
            metrics.available.labels(model, place).set(backend.breaker.is_up(at))
            metrics.untried.labels(model, place).set(not backend.breaker.is_tried)
            if (hold := backend.breaker.hold) is not None:
                metrics.held.labels(model, place, hold.state).set(1)
        metrics.engines.reports = metrics.pickers.reports = engines
        metrics.pickers.config = runtime.config
        try:
            return snapshot(metrics.registry)
        finally:
            metrics.engines.reports = metrics.pickers.reports = ()

    async def series_by_backend(self, window: Window, at: float) -> tuple[BackendSeries, ...]:
        """The traffic of all processes by backend. at: Unix seconds.

        Raises Unavailable if another process does not answer.
        """
        others = await self.peers.series_by_backend(window, at)
        own = self._log.own_series(window, at)
        return merge_series((own, *others)) if others else own

    async def recent(self, limit: int, request_id: str = "") -> list[RecentRequest]:
        """The last requests of all processes, the newest first, or those with this id.

        Raises Unavailable if another process does not answer.
        """
        others = await self.peers.recent(limit, request_id)
        everyone = chain(self._log.own_recent(limit, request_id), *others)
        return sorted(everyone, key=lambda one: one.line.time, reverse=True)[:limit]


def _paused(runtime: Runtime) -> Iterator[tuple[str, bool]]:
    for experiment in runtime.config.experiments:
        status = runtime.routing.experiments.status(fingerprint(experiment))
        yield experiment.name, status.paused
