"""Prompts as a part: those of each generation, their texts in the store, and what operators see."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from strowger_gateway.gateway.config.problems import Problems
from strowger_gateway.gateway.config.schema.config import Config
from strowger_gateway.gateway.content.prompts.columns import DIGEST, PROMPT
from strowger_gateway.gateway.content.prompts.prepared import NAME, PreparedPrompts
from strowger_gateway.gateway.parts.console import AdminRoute, PageView
from strowger_gateway.gateway.parts.leader_side import LeaderContext, LeaderSide
from strowger_gateway.gateway.parts.process_side import ProcessContext, ProcessSide
from strowger_gateway.gateway.stages.request_part import Prepared, RequestPart

if TYPE_CHECKING:
    from strowger_gateway.gateway.stages.generation import Generation


class PromptsPart(RequestPart):
    """`prompts` is a field of `Config`, because experiments name its versions."""

    name = NAME
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

    def leader(self, at: LeaderContext) -> LeaderSide[Any, Any]:
        from strowger_gateway.gateway.content.prompts.leader_side import PromptsLeader

        return PromptsLeader(at)

    def process(self, at: ProcessContext) -> ProcessSide[Any, Any]:
        from strowger_gateway.gateway.content.prompts.process_side import PromptsSide

        return PromptsSide(at)

    def routes(self) -> Sequence[AdminRoute[Any]]:
        from strowger_gateway.gateway.content.prompts.admin import ROUTE

        return (ROUTE,)

    def views(self) -> Sequence[PageView[Any]]:
        from strowger_gateway.gateway.content.prompts.admin import VIEW

        return (VIEW,)
