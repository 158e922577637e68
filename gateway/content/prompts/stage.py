"""Give each request its prompt, before anything else looks at what it says."""

from collections.abc import Awaitable

from strowger_gateway.gateway.content.prompts.catalogue import PromptCatalogue
from strowger_gateway.gateway.content.prompts.columns import DIGEST, PROMPT
from strowger_gateway.gateway.platform.clock import now
from strowger_gateway.gateway.routing.planning.planner import Planner
from strowger_gateway.gateway.routing.planning.request_facts import RequestFacts
from strowger_gateway.gateway.stages.request_context import RequestContext
from strowger_gateway.gateway.stages.stage import BaseStage, Place


class PromptStage(BaseStage):
    """Of one route and generation. It is the first stage that knows the route."""

    place = Place.RESERVE

    def __init__(self, catalogue: PromptCatalogue, planner: Planner) -> None:
        self._catalogue = catalogue
        self._planner = planner

    def enter(self, request: RequestContext) -> Awaitable[None] | None:
        """Raises as `PromptCatalogue.prompted`, and as `Room.buffer` does."""
        record, sent, route = request.record, request.request, request.route
        assert sent is not None
        assert route is not None
        facts = RequestFacts(
            now=now(),
            caller=record.caller,
            headers=request.exchange.scope["headers"],
            request_id=record.request_id,
        )
        found = self._catalogue.prompted(sent, route, self._planner, facts)
        request.enrolment = found.enrolment
        if found.added and request.room is not None:
            request.room.buffer(found.added)
        if found.request is not sent:
            request.use(found.request)
        if found.text is not None:
            PROMPT.set(record, found.text.ref)
            DIGEST.set(record, found.text.digest)
        if found.repairs:
            record.repaired_body += found.repairs
        return None
