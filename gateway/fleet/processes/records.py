"""What a serving process keeps: its records and audit events on the disk, and its store."""

import asyncio
from collections.abc import Sequence
from typing import Final

from strowger_gateway.gateway.assembly.gateway import Gateway
from strowger_gateway.gateway.config.schema.config import Config
from strowger_gateway.gateway.observability.recording.metrics import (
    AuditCollector,
    RecorderCollector,
)
from strowger_gateway.gateway.observability.recording.recorder import FileRecorder
from strowger_gateway.gateway.observability.recording.setup import audit_recorder, open_spool
from strowger_gateway.gateway.parts.leader_side import Work
from strowger_gateway.gateway.storage.sql.open import open_store

REPEATS_S: Final = 5.0
"""Interval between checks for repeated refusals whose minute has passed."""


class ProcessRecords:
    """Opened before the first request, and closed after what the last one has recorded.

    recorder: of usage and outcomes. store: blocks; see `StoreAccess`.
    """

    def __init__(self, config: Config) -> None:
        """Raises InvalidConfig."""
        self.recorder = FileRecorder(open_spool(config))
        self.store = open_store(config.store.url)
        self._audit = audit_recorder(config)
        self._gateway: Gateway | None = None

    def attach(self, gateway: Gateway) -> None:
        """Record the audit events of this gateway, if its configuration wants that."""
        self._gateway, registry = gateway, gateway.log.metrics.registry
        registry.register(RecorderCollector(self.recorder))
        if self._audit is not None:
            gateway.audit = self._audit
            registry.register(AuditCollector(self._audit))

    def works(self) -> Sequence[Work]:
        """Return what runs while the process serves."""
        return (("audit log", self._count_repeats),)

    async def close(self) -> None:
        """Write the rest, and close the store. The disk may block; the loop must not."""
        await asyncio.to_thread(self.recorder.close)
        if self._audit is not None:
            await asyncio.to_thread(self._audit.close)
        if self._gateway is not None and self._gateway.store is not None:
            self._gateway.store.close()
        self.store.close()

    async def _count_repeats(self) -> None:
        while self._audit is not None:
            await asyncio.sleep(REPEATS_S)
            self._audit.tick()
