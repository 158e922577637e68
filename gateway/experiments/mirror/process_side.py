"""The copies that a serving process sends to mirrors."""

import asyncio
from collections.abc import Sequence
from typing import Final, Protocol, runtime_checkable

from strowger_gateway.gateway.experiments.mirror.mirroring import Mirrors
from strowger_gateway.gateway.experiments.mirror.stage import MirrorStage
from strowger_gateway.gateway.governance.attribution.attributor import Attributor
from strowger_gateway.gateway.observability.telemetry.mirror_log_entry import MirrorLogEntry
from strowger_gateway.gateway.observability.tracing.part import TracingSide
from strowger_gateway.gateway.parts.leader_side import Work
from strowger_gateway.gateway.parts.process_side import ProcessContext
from strowger_gateway.gateway.stages.generation import Generation
from strowger_gateway.gateway.stages.request_context import RequestContext
from strowger_gateway.gateway.stages.request_part import RequestSide
from strowger_gateway.gateway.stages.stage import Stage
from strowger_gateway.gateway.storage.sql.rows import AttemptRow
from strowger_gateway.gateway.surfaces.hot_route import HotRoute
from strowger_gateway.schemas.answers import Answer, Embeddings
from strowger_gateway.schemas.tasks.task import TaskAnswer

MAX_LOAD: Final = 0.5
"""Share of `max_in_flight` beyond which no request is mirrored."""


@runtime_checkable
class RecordsCopies(Protocol):
    """The log of a process."""

    def record_mirrored(self, line: MirrorLogEntry, row: AttemptRow | None) -> None:
        """Record a copy. row: its usage, if it was answered."""
        ...


@runtime_checkable
class ProcessLoad(Protocol):
    """The requests of a process. refusing: it takes no new ones."""

    refusing: bool
    in_flight: int


class MirrorsSide(RequestSide[None, None]):
    """copies: those that are being sent."""

    def __init__(self, at: ProcessContext) -> None:
        self._config, self._load = at.config, at.own(ProcessLoad)
        traced = at.side(TracingSide)
        record, attribute = at.own(RecordsCopies).record_mirrored, at.own(Attributor).attribute
        self.copies = Mirrors(record, lambda: traced.tracing, attribute)

    def stages(self, generation: Generation, prepared: None, at: HotRoute) -> Sequence[Stage]:
        mirrored = any(one.mirror is not None for one in generation.table.routes.values())
        return (MirrorStage(self.offer),) if mirrored and not at.counts else ()

    def offer(self, request: RequestContext, answer: Answer | Embeddings | TaskAnswer) -> None:
        """Send the copy of a request, unless clients need the capacity."""
        load, limit = self._load, self._config().server.max_in_flight
        busy = load.refusing or load.in_flight > limit * MAX_LOAD
        self.copies.offer(request, answer, busy=busy)

    async def idle(self) -> None:
        await self.copies.wait_idle()

    def works(self) -> Sequence[Work]:
        return (("mirrors", self._end_with_process),)

    async def _end_with_process(self) -> None:
        """Break off the copies when the process has stopped, before their connections close."""
        try:
            await asyncio.Event().wait()
        finally:
            await self.copies.cancel()
