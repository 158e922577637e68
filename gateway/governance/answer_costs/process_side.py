"""Costs in answers in a serving process."""

from collections.abc import Sequence
from typing import Final

from strowger_gateway.gateway.governance.answer_costs.section import Costs
from strowger_gateway.gateway.governance.answer_costs.stage import ShowCosts
from strowger_gateway.gateway.stages.generation import Generation
from strowger_gateway.gateway.stages.request_part import RequestSide
from strowger_gateway.gateway.stages.stage import Stage
from strowger_gateway.gateway.surfaces.hot_route import HotRoute

_IN_USAGE: Final = frozenset({"openai"})
"""Surfaces whose `usage` has a place for `cost`: their clients keep members that they do not know.
Those of the other dialects refuse them, or drop them."""


class AnswerCostsSide(RequestSide[None, None]):
    def stages(self, generation: Generation, prepared: None, at: HotRoute) -> Sequence[Stage]:
        found = generation.config.section(Costs)
        if found is None or found.in_answers == "none" or at.counts or not generation.prices.any:
            return ()
        usage = found.in_answers == "usage" and at.surface.name in _IN_USAGE
        return (ShowCosts(header=generation.config.server.expose_headers, usage=usage),)
