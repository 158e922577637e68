"""Prompts as a part: those of each generation, and the stage that gives them to requests."""

from typing import TYPE_CHECKING, Any

from strowger_gateway.gateway.config.problems import Problems
from strowger_gateway.gateway.config.schema.config import Config
from strowger_gateway.gateway.content.prompts.columns import DIGEST, PROMPT
from strowger_gateway.gateway.parts.process_side import ProcessContext, ProcessSide
from strowger_gateway.gateway.stages.request_part import Prepared, RequestPart, RequestSide

if TYPE_CHECKING:
    from collections.abc import Sequence

    from strowger_gateway.gateway.content.prompts.catalogue import PromptCatalogue
    from strowger_gateway.gateway.stages.generation import Generation
    from strowger_gateway.gateway.stages.stage import Stage
    from strowger_gateway.gateway.surfaces.hot_route import HotRoute


class PromptsPart(RequestPart):
    """`prompts` is a field of `Config`, because experiments name its versions."""

    name = "prompts"
    columns = (PROMPT, DIGEST)

    def check(self, config: Config, problems: Problems) -> None:
        from strowger_gateway.gateway.config.prompts.check import check_prompts

        check_prompts(config, problems)

    def prepare(self, generation: "Generation", before: Prepared | None) -> Prepared | None:
        """Parse the templates of a generation that has some."""
        if not generation.config.prompts:
            return None
        from strowger_gateway.gateway.content.prompts.catalogue import PromptCatalogue

        return PreparedPrompts(PromptCatalogue(generation.config))

    def process(self, at: ProcessContext) -> ProcessSide[Any, Any]:
        return PromptsSide()


class PreparedPrompts(Prepared):
    """The prompts of one generation."""

    def __init__(self, catalogue: "PromptCatalogue") -> None:
        self.catalogue = catalogue


class PromptsSide(RequestSide[None, None]):
    """Brings the stage to the routes of a generation that has prompts."""

    def stages(
        self, generation: "Generation", prepared: PreparedPrompts | None, at: "HotRoute"
    ) -> "Sequence[Stage]":
        if prepared is None:
            return ()
        from strowger_gateway.gateway.content.prompts.stage import PromptStage

        return (PromptStage(prepared.catalogue, generation.planner),)
