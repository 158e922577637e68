"""Prompts in a serving process: its stages, and the texts that the store has."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from strowger_gateway.gateway.content.prompts.prepared import PreparedPrompts
from strowger_gateway.gateway.parts.process_side import ProcessContext
from strowger_gateway.gateway.stages.request_part import RequestSide
from strowger_gateway.gateway.storage.sql.sql import SqlStore
from strowger_gateway.gateway.storage.store_access import StoreAccess

if TYPE_CHECKING:
    from strowger_gateway.gateway.content.prompts.text_rows import StoredText
    from strowger_gateway.gateway.stages.generation import Generation
    from strowger_gateway.gateway.stages.stage import Stage
    from strowger_gateway.gateway.surfaces.hot_route import HotRoute


class PromptsSide(RequestSide[None, None]):
    """Brings the stage to the routes of a generation that has prompts."""

    def __init__(self, at: ProcessContext) -> None:
        self._store: SqlStore | None = at.store
        self._access: StoreAccess | None = at.access

    def stages(
        self, generation: "Generation", prepared: PreparedPrompts | None, at: "HotRoute"
    ) -> "Sequence[Stage]":
        if prepared is None:
            return ()
        from strowger_gateway.gateway.content.prompts.stage import PromptStage

        return (PromptStage(prepared.catalogue, generation.planner),)

    async def texts(self) -> "list[StoredText] | None":
        """Return what the store has; `None` without a store. Raises StoreUnavailable."""
        from strowger_gateway.gateway.content.prompts.text_rows import stored_texts

        store, access = self._store, self._access
        if store is None or access is None:
            return None
        return await access.call(lambda _: stored_texts(store.database))
