"""What a serving process keeps: its records on the disk, and its store."""

import asyncio

from prometheus_client.registry import CollectorRegistry

from strowger_gateway.gateway.config.schema.config import Config
from strowger_gateway.gateway.observability.recording.metrics import RecorderCollector
from strowger_gateway.gateway.observability.recording.recorder import FileRecorder
from strowger_gateway.gateway.observability.recording.setup import open_spool
from strowger_gateway.gateway.storage.sql.open import open_store


class ProcessRecords:
    """Opened before the first request, and closed after what the last one has recorded.

    recorder: of usage and outcomes. store: blocks; see `StoreAccess`.
    """

    def __init__(self, config: Config) -> None:
        """Raises InvalidConfig."""
        self.recorder = FileRecorder(open_spool(config))
        self.store = open_store(config.store.url)

    def measure(self, registry: CollectorRegistry) -> None:
        registry.register(RecorderCollector(self.recorder))

    async def close(self) -> None:
        """Write the rest, and close the store. The disk may block; the loop must not."""
        await asyncio.to_thread(self.recorder.close)
        self.store.close()
