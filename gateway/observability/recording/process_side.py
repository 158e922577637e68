"""The audit log of a serving process, and what the store has of all."""

import asyncio
from collections.abc import Sequence
from typing import Final

from strowger_gateway.gateway.audit.log import AuditLog, NoAudit
from strowger_gateway.gateway.observability.recording.metrics import AuditCollector
from strowger_gateway.gateway.observability.recording.setup import audit_recorder
from strowger_gateway.gateway.parts.leader_side import Work
from strowger_gateway.gateway.parts.process_side import ProcessContext, ProcessSide

REPEATS_S: Final = 5.0
"""Interval between checks for repeated refusals whose minute has passed."""


class AuditSide(ProcessSide[None, None]):
    """log: records what operators do, if there is a store. rows: what was recorded."""

    def __init__(self, at: ProcessContext) -> None:
        self.log: AuditLog = NoAudit()
        self.rows = None if at.store is None else at.store.audit
        self._recorder = None if at.store is None else audit_recorder(at.config())
        if self._recorder is not None:
            self.log = self._recorder
            at.registry.register(AuditCollector(self._recorder))

    def works(self) -> Sequence[Work]:
        return () if self._recorder is None else (("audit log", self._count_repeats),)

    async def close(self, within_s: float) -> None:
        """Write everything. The disk may block; the loop must not."""
        if self._recorder is not None:
            await asyncio.to_thread(self._recorder.close)

    async def _count_repeats(self) -> None:
        while self._recorder is not None:
            await asyncio.sleep(REPEATS_S)
            self._recorder.tick()
