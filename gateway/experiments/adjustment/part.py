"""Adjustment as a part: requests on models whose experiment adjusts have their prompts measured."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from strowger_gateway.gateway.config.problems import Found, Problems
from strowger_gateway.gateway.config.schema.config import Config
from strowger_gateway.gateway.experiments.adjustment.column import PROMPT
from strowger_gateway.gateway.parts.process_side import ProcessContext, ProcessSide
from strowger_gateway.gateway.stages.request_part import RequestPart, RequestSide
from strowger_gateway.gateway.statistics.metrics import PROMPT_TOKENS

if TYPE_CHECKING:
    from strowger_gateway.gateway.stages.generation import Generation
    from strowger_gateway.gateway.stages.stage import Stage
    from strowger_gateway.gateway.surfaces.hot_route import HotRoute


class AdjustmentPart(RequestPart):
    """`experiments[].adjust` is a field of `Config`."""

    name = "adjustment"
    columns = (PROMPT,)

    def check(self, config: Config, problems: Problems) -> None:
        for index, experiment in enumerate(config.experiments):
            path = ("experiments", index, "adjust")
            if problems.under(path):
                continue
            for place, name in enumerate(experiment.adjust):
                if name in experiment.adjust[:place]:
                    problems.add((*path, place), Found(name), " is already in the list; remove one")
                elif name == "past" and experiment.assign_by == "request":
                    problems.add(
                        (*path, place),
                        "with assign_by: request each request is a new unit, which has no past;"
                        " remove it, or assign by user, session or api_key",
                    )

    def process(self, at: ProcessContext) -> ProcessSide[Any, Any]:
        return AdjustmentSide()


class AdjustmentSide(RequestSide[None, None]):
    """Measures prompts where an experiment adjusts by them, and brings no stage elsewhere."""

    def stages(self, generation: "Generation", prepared: None, at: "HotRoute") -> "Sequence[Stage]":
        models = frozenset(
            one.model for one in generation.config.experiments if PROMPT_TOKENS in one.adjust
        )
        if not models or at.counts:
            return ()
        from strowger_gateway.gateway.experiments.adjustment.stage import MeasurePrompt

        return (MeasurePrompt(models),)
