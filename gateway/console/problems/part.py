"""What is wrong and what has happened as a part: in the band of the page, the API and commands."""

from collections.abc import Sequence
from typing import Any

from strowger_gateway.gateway.parts.console import AdminRoute, PageView
from strowger_gateway.gateway.parts.leader_side import LeaderContext, LeaderSide
from strowger_gateway.gateway.parts.part import Part
from strowger_gateway.gateway.parts.process_side import ProcessContext, ProcessSide


class ProblemsPart(Part):
    """It has no settings."""

    name = "problems"

    def leader(self, at: LeaderContext) -> LeaderSide[Any, Any]:
        from strowger_gateway.gateway.console.problems.leader_side import ProblemsLeader

        return ProblemsLeader(at)

    def process(self, at: ProcessContext) -> ProcessSide[Any, Any]:
        from strowger_gateway.gateway.console.problems.process_side import ProblemsSide

        return ProblemsSide(at)

    def routes(self) -> Sequence[AdminRoute[Any]]:
        from strowger_gateway.gateway.console.problems.admin import ROUTES

        return ROUTES

    def views(self) -> Sequence[PageView[Any]]:
        from strowger_gateway.gateway.console.problems.events_view import VIEW

        return (VIEW,)
