"""Stored responses of a serving process, if it has a store, and the seals of other items."""

from collections.abc import Sequence

from strowger_gateway.gateway.config.schema.responses import ResponsesConfig
from strowger_gateway.gateway.content.stored_responses.archive import ResponseArchive
from strowger_gateway.gateway.content.stored_responses.metrics import ResponseCollector
from strowger_gateway.gateway.content.stored_responses.seals import Seals
from strowger_gateway.gateway.parts.leader_side import Work
from strowger_gateway.gateway.parts.process_side import ProcessContext, ProcessSide


class StoredResponsesSide(ProcessSide[None, None]):
    """archive: `None` without a store.

    seals: of items that clients refer to while none are stored.
    """

    def __init__(self, at: ProcessContext) -> None:
        self._config = at.config
        self.archive: ResponseArchive | None = None
        self.seals = Seals(self._settings)
        if at.store is not None:
            rows = at.store.stored_responses
            self.archive = ResponseArchive(at.store, rows, self._settings, self._spare)
            self.seals = Seals(self._settings, at.store.sealing_keys)
            at.registry.register(ResponseCollector(self.archive))

    @property
    def stores(self) -> bool:
        """Whether answers of the Responses API are stored."""
        return self.archive is not None and self._settings().store == "on"

    def works(self) -> Sequence[Work]:
        return () if self.archive is None else (("response sweeper", self.archive.sweep),)

    async def close(self, within_s: float) -> None:
        if self.archive is not None:
            self.archive.close()

    def _settings(self) -> ResponsesConfig:
        return self._config().responses

    def _spare(self) -> int:
        return self._config().store.min_free_bytes
