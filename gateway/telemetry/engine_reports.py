"""Reports of the engine processes, requested over their sockets with a short timeout."""

import asyncio
import time
from collections.abc import Mapping

from msgspec import Struct

from gateway.engine_process.process import EngineView, State
from gateway.upstream.local_engine import LocalUpstream
from local_engine.protocol.frames import StatsReply
from local_engine.protocol.stats import Machine, Stats
from schemas.errors import GatewayError

TIMEOUT_S = 0.5
"""For an engine's report; an engine that takes longer counts as down."""

FRESH_S = 1.0
"""Reports are cached for this many seconds."""


class EngineReport(Struct, frozen=True, kw_only=True):
    """One engine process as of now.

    up:       it responded; otherwise `machine` and `models` are empty.
    uptime_s: of the current process; 0 without one.
    """

    name: str
    up: bool
    state: State
    status: str
    pid: int | None
    uptime_s: float
    restarts: int
    machine: Machine = Machine()
    models: Mapping[str, Stats] = {}


class EngineReports:
    """Query all engines in parallel, at most once per FRESH_S; concurrent calls share a result."""

    def __init__(self, *, timeout_s: float = TIMEOUT_S, fresh_s: float = FRESH_S) -> None:
        self._timeout_s = timeout_s
        self._fresh_s = fresh_s
        self._taken_at = float("-inf")
        self._reports: tuple[EngineReport, ...] = ()
        self._lock = asyncio.Lock()

    async def gather(
        self, engines: Mapping[str, EngineView], links: Mapping[str, LocalUpstream]
    ) -> tuple[EngineReport, ...]:
        """Return one report per engine within `timeout_s`. links: to the engines, by name."""
        async with self._lock:
            if time.monotonic() - self._taken_at >= self._fresh_s:
                queries = [self._query(process, links[name]) for name, process in engines.items()]
                self._reports = tuple(await asyncio.gather(*queries))
                self._taken_at = time.monotonic()
            return self._reports

    async def _query(self, process: EngineView, link: LocalUpstream) -> EngineReport:
        measured: StatsReply | None = None
        if process.ready:
            try:
                async with asyncio.timeout(self._timeout_s):
                    measured = await link.measured()
            except (TimeoutError, GatewayError):
                measured = None
        return EngineReport(
            name=process.name,
            up=measured is not None,
            state=process.state,
            status=process.status,
            pid=process.pid,
            uptime_s=round(process.uptime_s, 3),
            restarts=process.restarts,
            machine=measured.machine if measured else Machine(),
            models=measured.stats if measured else {},
        )
