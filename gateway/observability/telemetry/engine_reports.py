"""Reports of the engines, requested over their connections with a short timeout."""

import asyncio
import time
from collections.abc import Mapping

from msgspec import Struct

from strowger_gateway.gateway.backends.engines.process.process import EngineView, State
from strowger_gateway.gateway.backends.upstream.local_engine import LocalUpstream
from strowger_gateway.local_engine.protocol.frames import StatsReply
from strowger_gateway.local_engine.protocol.stats import Machine, Stats
from strowger_gateway.schemas.errors import GatewayError

TIMEOUT_S = 0.5
"""For an engine's report; an engine that takes longer counts as down."""

FRESH_S = 1.0
"""Reports are cached for this many seconds."""


class EngineReport(Struct, frozen=True, kw_only=True):
    """One engine process as of now.

    address:  of an engine on another machine; "" for one of this machine.
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
    address: str = ""
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
        """Return one report per engine within `timeout_s`.

        engines: those of this machine. links: to all engines, by name.
        """
        async with self._lock:
            if time.monotonic() - self._taken_at >= self._fresh_s:
                queries = [
                    self._query(engines[name], link) if name in engines else self._ask(name, link)
                    for name, link in links.items()
                ]
                self._reports = tuple(await asyncio.gather(*queries))
                self._taken_at = time.monotonic()
            return self._reports

    async def _query(self, process: EngineView, link: LocalUpstream) -> EngineReport:
        measured = await self._measured(link) if process.ready else None
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

    async def _ask(self, name: str, link: LocalUpstream) -> EngineReport:
        """Report on an engine of another machine, of which only its answer is known."""
        measured = await self._measured(link)
        machine = measured.machine if measured else Machine()
        began = machine.started_at
        return EngineReport(
            name=name,
            up=measured is not None,
            state="ready" if measured else "unreachable",
            status="ready" if measured else link.trouble or "it does not answer",
            pid=machine.pid or None,
            uptime_s=round(max(0.0, time.time() - began), 3) if began else 0.0,
            restarts=0,
            address=link.place.address,
            machine=machine,
            models=measured.stats if measured else {},
        )

    async def _measured(self, link: LocalUpstream) -> StatsReply | None:
        try:
            async with asyncio.timeout(self._timeout_s):
                return await link.measured()
        except (TimeoutError, GatewayError):
            return None
