"""Compact the conversations of clients that ask for it, unless the backend does so itself."""

from collections.abc import Awaitable

from msgspec.structs import replace

from strowger_gateway.gateway.content.stored_responses.seals import Seals
from strowger_gateway.gateway.stages.request_context import RequestContext
from strowger_gateway.gateway.stages.stage import BaseStage, Place
from strowger_gateway.schemas.requests import ChatRequest


class CompactionStage(BaseStage):
    """Of one route and generation."""

    place = Place.ANSWER

    def __init__(self, seals: Seals) -> None:
        self._seals = seals

    def enter(self, request: RequestContext) -> Awaitable[None] | None:
        """See Stage."""
        sent, plan = request.request, request.plan
        if type(sent) is not ChatRequest or sent.original is None or plan is None:
            return None
        wants = sent.original.compaction
        if wants is None:
            return None
        # Late, because few requests ask for it.
        from strowger_gateway.gateway.content.compaction.compacting import Compacting
        from strowger_gateway.gateway.content.compaction.filters import (
            CompactedAnswer,
            Summarised,
            SummaryAnswer,
        )

        request.plan = plan = replace(plan, mirror=None)  # a copy would be of another request
        work = Compacting(request, wants, self._seals)
        request.filters.insert(0, Summarised(work, request.record))
        outer = SummaryAnswer(work, request.record) if wants.now else CompactedAnswer(work)
        request.filters.append(outer)
        return None
