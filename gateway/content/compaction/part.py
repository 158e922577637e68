"""Compaction as a part: a stage of the routes on which clients can ask for it."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from strowger_gateway.gateway.parts.process_side import ProcessContext, ProcessSide
from strowger_gateway.gateway.stages.request_part import RequestPart, RequestSide

if TYPE_CHECKING:
    from strowger_gateway.gateway.content.stored_responses.seals import Seals
    from strowger_gateway.gateway.stages.generation import Generation
    from strowger_gateway.gateway.stages.stage import Stage
    from strowger_gateway.gateway.surfaces.hot_route import HotRoute


class CompactionPart(RequestPart):
    """It has no settings: `responses.sealing_keys` and `sealed_days` hold for its items, too."""

    name = "compaction"

    def process(self, at: ProcessContext) -> ProcessSide[Any, Any]:
        from strowger_gateway.gateway.content.stored_responses.process_side import (
            StoredResponsesSide,
        )

        return CompactionSide(at.side(StoredResponsesSide).seals)


class CompactionSide(RequestSide[None, None]):
    """seals: of what clients keep for the gateway."""

    def __init__(self, seals: "Seals") -> None:
        self._seals = seals

    def stages(self, generation: "Generation", prepared: Any, at: "HotRoute") -> "Sequence[Stage]":
        """Only the Responses API has compaction, and a count does not need it."""
        if not at.compacts:
            return ()
        from strowger_gateway.gateway.content.compaction.stage import CompactionStage

        return (CompactionStage(self._seals),)
