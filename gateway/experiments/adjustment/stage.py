"""Measure the prompts of requests on models whose experiment adjusts by them."""

from collections.abc import Awaitable, Collection

from strowger_gateway.gateway.experiments.adjustment.column import PROMPT
from strowger_gateway.gateway.routing.planning.request_facts import estimated_tokens
from strowger_gateway.gateway.stages.request_context import RequestContext
from strowger_gateway.gateway.stages.stage import BaseStage, Place
from strowger_gateway.gateway.surfaces.token_estimate.estimate import estimated_input
from strowger_gateway.schemas.requests import ChatRequest

ANY_MODEL = ""
"""Images are measured in the same way for all variants, whatever their models count."""


class MeasurePrompt(BaseStage):
    """Runs before a variant is chosen, and before guardrails mask anything: the number depends on
    what the client has sent and not on a variant's tokenizer, system prompt or settings."""

    place = Place.EXAMINE

    def __init__(self, models: Collection[str]) -> None:
        self._models = models

    def enter(self, request: RequestContext) -> Awaitable[None] | None:
        """See Stage."""
        sent, route = request.request, request.route
        if sent is None or route is None or route.name not in self._models:
            return
        if isinstance(sent, ChatRequest):
            tokens = estimated_input(sent, ANY_MODEL, quickly=True)
        else:
            tokens = estimated_tokens(sent)
        PROMPT.set(request.record, tokens)
