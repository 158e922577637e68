"""The state of one gateway process: the configuration generation in force, and what serves it."""

import random
import time
from collections.abc import Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import TypeVar

from strowger_gateway.gateway.assembly.admission import Admission
from strowger_gateway.gateway.assembly.generations import Generations
from strowger_gateway.gateway.assembly.parts import PARTS
from strowger_gateway.gateway.assembly.peers import NoPeers, Peers
from strowger_gateway.gateway.assembly.process_parts import (
    Link,
    NoLeader,
    ProcessParts,
    ProcessState,
)
from strowger_gateway.gateway.assembly.request_log import RequestLog
from strowger_gateway.gateway.assembly.runtime import Runtime
from strowger_gateway.gateway.audit.log import AuditLog, NoAudit
from strowger_gateway.gateway.config.schema_store import SPOOL
from strowger_gateway.gateway.experiments.mirror.mirroring import Mirrors
from strowger_gateway.gateway.governance.access.auth import Caller
from strowger_gateway.gateway.governance.access.ended_sessions import EndedSessions
from strowger_gateway.gateway.governance.access.key_shares import KeyShares
from strowger_gateway.gateway.governance.access.wrong_keys import WrongKeyThrottle
from strowger_gateway.gateway.governance.budgets.process_side import BudgetsSide
from strowger_gateway.gateway.governance.end_users.process_side import EndUsersSide
from strowger_gateway.gateway.governance.issued_keys.process_side import KeysSide
from strowger_gateway.gateway.governance.limits.process_side import LimitsSide
from strowger_gateway.gateway.governance.sessions.desk import AdminSessions
from strowger_gateway.gateway.observability.telemetry.access_log import AccessLog
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
from strowger_gateway.gateway.observability.telemetry.time_series import (
    BackendSeries,
    Window,
    merge_series,
)
from strowger_gateway.gateway.observability.tracing.part import TracingSide
from strowger_gateway.gateway.parts.part import Part
from strowger_gateway.gateway.platform.clock import now
from strowger_gateway.gateway.routing.planning.enrolment import fingerprint
from strowger_gateway.gateway.server.asgi.cors import CorsHeaders
from strowger_gateway.gateway.server.asgi.large_bodies import LargeBodyQueue
from strowger_gateway.gateway.server.asgi.response import SseKeepAlive
from strowger_gateway.gateway.stages.request_context import RequestContext
from strowger_gateway.gateway.stages.stage import Stage
from strowger_gateway.gateway.storage.sql.audit_rows import AuditRows
from strowger_gateway.gateway.storage.sql.rows import Recorder
from strowger_gateway.gateway.storage.sql.session_rows import SessionRows
from strowger_gateway.gateway.storage.sql.sql import SqlStore
from strowger_gateway.gateway.storage.store_access import StoreAccess
from strowger_gateway.gateway.surfaces.hot_route import HotRoute
from strowger_gateway.schemas.answers import Answer, Embeddings

T = TypeVar("T")

MAX_LOAD_FOR_MIRRORING = 0.5
"""Share of `max_in_flight` beyond which no request is mirrored."""


class Gateway:
    """One process's state.

    runtime: the generation in force, replaced as a whole; a request keeps the one it began with.
    admission, shares: the requests in flight, and those of each API key. rules: the operator's
    limits and budgets in force. limits, budgets, end_users: over all generations. by_place: what of
    them applies to which requests. log: the ended ones.
    config_rejected: the configuration file, as it is now, is invalid; an older one is in force.
    differing_gateways: that run another configuration, as far as Redis shows.
    worker: this process's number among the workers. sessions: those of browsers at /admin.
    store: if there is one. generations: the one in force, and those with requests in flight.
    audit: records what operators do. audit_rows: what was recorded, if there is a store.
    parts: the sides of all parts in this process.
    clock: of the backends' state, to be replaced by tests.
    """

    def __init__(
        self,
        runtime: Runtime,
        access_log: AccessLog,
        *,
        recorder: Recorder | None = None,
        seed: int | None = None,
        store: SqlStore | None = None,
        link: Link | None = None,
        parts: Sequence[Part] = PARTS,
    ) -> None:
        """recorder: of usage and outcomes; `None` keeps no records.

        seed: of the draws that policies use; `None` takes the system's randomness.
        store: `None` keeps nothing. link: to the parts' sides in the leader; `None` without one.
        parts: all of the program.
        """
        server = runtime.config.server
        self.runtime, self.clock = runtime, now
        self.log = RequestLog(access_log, recorder)
        self.worker, self.differing_gateways = 0 if link is None else link.worker, 0
        self.store = None if store is None else StoreAccess(store)
        self.admission, self.large_bodies = Admission(self.log), LargeBodyQueue()
        self.shares = KeyShares(self.large_bodies)
        self.generations = Generations(runtime, self._begin)
        self.parts = ProcessParts(parts, self._state(store), NoLeader() if link is None else link)
        self.log.takers = self.parts.takers()
        self.rules = self.side(KeysSide).rules
        self.limits, self.budgets = self.side(LimitsSide).limits, self.side(BudgetsSide).budgets
        self.end_users = self.side(EndUsersSide).finder
        self.keepalive = SseKeepAlive(server.sse_keepalive_s, server.commit_after_s)
        self.cors = CorsHeaders(server.cors.allow_origins)
        self.random = random.Random(seed)
        self.wrong_keys = WrongKeyThrottle(in_flight=self._most_in_flight)
        self.failed_sign_ins = WrongKeyThrottle(what="failed sign-ins to /admin")
        self.mirrors = Mirrors(self.log.record_mirrored, lambda: self.side(TracingSide).tracing)
        self.audit: AuditLog = NoAudit()
        self.audit_rows: AuditRows | None = None if store is None else store.audit
        self.peers: Peers = NoPeers()
        self._reports = EngineReports()
        self.sessions = self.admin_sessions(None if store is None else store.admin_sessions)
        self.started_at = int(time.time())
        self.config_rejected, self.import_problem = False, ""
        self.parts.follow(runtime)

    def side(self, kind: type[T]) -> T:
        """Return the side of a part, by its class. Raises LookupError if there is none."""
        return self.parts.side(kind)

    def _state(self, store: SqlStore | None) -> ProcessState:
        log = self.log
        return ProcessState(
            config=lambda: self.runtime.config,
            registry=log.metrics.registry,
            crashed=log.metrics.internal_errors.count,
            recorder=log.recorder,
            store=store,
            access=self.store,
            own=(
                self.runtime.issued,
                self.runtime.experiments,
                log.budgets,
                self.generations,
                self,
            ),
            flush=log.flush,
            stages_changed=self._stages_changed,
        )

    def _stages_changed(self) -> None:
        self.runtime.stages.clear()

    def _most_in_flight(self) -> int:
        return min(self.runtime.config.server.max_in_flight, self.shares.room)

    def admin_sessions(self, rows: SessionRows | None = None) -> AdminSessions:
        """Return the sessions in a store; without one, those that the operator's key opens."""
        return AdminSessions(
            lambda: self.runtime.session_tokens,
            lambda: self.runtime.config.auth.admin_session_s,
            EndedSessions(Path(self.runtime.config.store.spool or SPOOL)),
            rows,
        )

    def use_runtime(self, runtime: Runtime) -> None:
        """Begin requests with this generation of another configuration from now on."""
        server = runtime.config.server
        self.generations.replace(runtime)
        self.keepalive.configure(server.sse_keepalive_s, server.commit_after_s)
        self.cors = CorsHeaders(server.cors.allow_origins)

    def _begin(self, runtime: Runtime) -> None:
        self.log.flush()
        self.runtime = runtime
        self.parts.use(runtime.config)
        self.parts.follow(runtime)

    def stages(self, runtime: Runtime, at: HotRoute) -> Sequence[Stage]:
        """Return the stages that the parts bring to a route's requests, in their order."""
        return self.parts.stages(runtime, runtime.prepared, at)

    def mirror(self, request: RequestContext, answer: Answer | Embeddings) -> None:
        """Send the mirrored copy of a request, unless clients need the capacity."""
        limit = self.runtime.config.server.max_in_flight
        admission = self.admission
        busy = admission.refusing or admission.in_flight > limit * MAX_LOAD_FOR_MIRRORING
        self.mirrors.offer(request, answer, busy=busy)

    async def finished(self) -> None:
        """After `admission.refuse`: wait until every request and every copy has ended."""
        await self.admission.idle.wait()
        await self.mirrors.wait_idle()

    def model_names(self, caller: Caller) -> list[str]:
        """The names that a key may ask for: models and aliases, without wildcards."""
        table = self.runtime.table
        named = [(name, name) for name in table.routes if not name.endswith("*")]
        named += list(table.aliases.items())
        return [asked for asked, route in named if caller.may_use(asked, route)]

    async def engine_reports(self) -> tuple[EngineReport, ...]:
        """The reports of the engine processes; an engine that is slow to answer is left out."""
        return await self._reports.gather(self.runtime.engines, self.runtime.links)

    async def metrics_text(self) -> bytes:
        """The metrics of all processes, in Prometheus' text format.

        Raises Unavailable if another process does not answer.
        """
        reports = await self.engine_reports()
        others = await self.peers.counted()
        return render(merge((self.counted(reports), *others)))

    def counted(self, engines: Sequence[EngineReport] = ()) -> MetricFamilies:
        """The metrics of this process, and those of the engines given."""
        self.log.flush()
        metrics, at = self.log.metrics, self.clock()
        metrics.in_flight.set(self.admission.in_flight)
        metrics.buffered.set(self.shares.buffered)
        metrics.available.clear()
        metrics.untried.clear()
        metrics.experiments.paused.clear()
        for name, paused in self._paused():
            metrics.experiments.paused.labels(name).set(paused)
        for name, backend in self.runtime.backends.items():
            model, _, place = name.partition(": ")
            metrics.available.labels(model, place).set(backend.breaker.is_up(at))
            metrics.untried.labels(model, place).set(not backend.breaker.is_tried)
        metrics.engines.reports = metrics.pickers.reports = engines
        metrics.pickers.config = self.runtime.config
        try:
            return snapshot(metrics.registry)
        finally:
            metrics.engines.reports = metrics.pickers.reports = ()

    async def series_by_backend(self, window: Window, at: float) -> tuple[BackendSeries, ...]:
        """The traffic of all processes by backend. at: Unix seconds.

        Raises Unavailable if another process does not answer.
        """
        others = await self.peers.series_by_backend(window, at)
        own = self.log.own_series(window, at)
        return merge_series((own, *others)) if others else own

    async def recent(self, limit: int, request_id: str = "") -> list[RecentRequest]:
        """The last requests of all processes, the newest first, or those with this id.

        Raises Unavailable if another process does not answer.
        """
        others = await self.peers.recent(limit, request_id)
        everyone = chain(self.log.own_recent(limit, request_id), *others)
        return sorted(everyone, key=lambda one: one.line.time, reverse=True)[:limit]

    def _paused(self) -> Iterator[tuple[str, bool]]:
        for experiment in self.runtime.config.experiments:
            status = self.runtime.experiments.status(fingerprint(experiment))
            yield experiment.name, status.paused
