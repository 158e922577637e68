"""Measure the prompts of requests on models whose experiment adjusts by them."""

from collections.abc import Awaitable, Collection
from math import ceil

from strowger_gateway.gateway.experiments.adjustment.column import PROMPT
from strowger_gateway.gateway.routing.planning.request_facts import estimated_tokens
from strowger_gateway.gateway.stages.request_context import RequestContext
from strowger_gateway.gateway.stages.stage import BaseStage, Place
from strowger_gateway.gateway.surfaces.token_estimate.estimate import (
    estimated_input,
    text_tokens,
)
from strowger_gateway.schemas.requests import ChatRequest

ANY_MODEL = ""
"""Images are measured in the same way for all variants, whatever their models count."""


VALUES = ("prompt_variables", "prompt")
"""The fields of a body with the values of a prompt that the request names: the client's text, too.
"""


class MeasurePrompt(BaseStage):
    """Runs before a variant is chosen, before its prompt replaces the one that the client names,
    and before guardrails mask anything: the number depends on what the client has sent and not on
    a variant's tokenizer, prompts or settings."""

    place = Place.RESERVE

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
        for name in VALUES:
            if name in sent.extra:
                tokens += ceil(text_tokens(bytes(sent.extra[name]).decode("utf-8", "replace")))
        PROMPT.set(request.record, tokens)
