"""Costs in answers as a part: a filter next to the client."""

from typing import Any

from strowger_gateway.gateway.config.problems import Problems
from strowger_gateway.gateway.config.schema.config import Config
from strowger_gateway.gateway.governance.answer_costs.section import Costs
from strowger_gateway.gateway.parts.process_side import ProcessContext, ProcessSide
from strowger_gateway.gateway.stages.request_part import RequestPart


class AnswerCostsPart(RequestPart):
    name = "costs"
    section = Costs

    def check(self, config: Config, problems: Problems) -> None:
        found, place = config.section(Costs), ("costs", "in_answers")
        if found is None or problems.at(place):
            return
        if found.in_answers != "none" and not config.server.expose_headers:
            problems.warn(
                place,
                "sends no header, because server.expose_headers is false"
                if found.in_answers == "usage"
                else "has no effect, because server.expose_headers is false",
            )

    def process(self, at: ProcessContext) -> ProcessSide[Any, Any]:
        from strowger_gateway.gateway.governance.answer_costs.process_side import AnswerCostsSide

        return AnswerCostsSide()
