"""Spend caps of providers as a part."""

from collections.abc import Sequence
from typing import Any

from strowger_gateway.gateway.config.problems import Problems
from strowger_gateway.gateway.config.schema.config import Config
from strowger_gateway.gateway.parts.console import AdminRoute, PageView
from strowger_gateway.gateway.parts.leader_side import LeaderContext, LeaderSide
from strowger_gateway.gateway.parts.part import Part
from strowger_gateway.gateway.parts.process_side import ProcessContext, ProcessSide


class SpendCapsPart(Part):
    """`spend_caps` is a field of providers."""

    name = "spend_caps"

    def check(self, config: Config, problems: Problems) -> None:
        from strowger_gateway.gateway.governance.spend_caps.check import check_caps

        check_caps(config, problems)

    def leader(self, at: LeaderContext) -> LeaderSide[Any, Any]:
        from strowger_gateway.gateway.governance.spend_caps.leader_side import SpendCapsLeader

        return SpendCapsLeader(at)

    def process(self, at: ProcessContext) -> ProcessSide[Any, Any]:
        from strowger_gateway.gateway.governance.spend_caps.process_side import SpendCapsSide

        return SpendCapsSide(at)

    def routes(self) -> Sequence[AdminRoute[Any]]:
        from strowger_gateway.gateway.governance.spend_caps.admin import ROUTE

        return (ROUTE,)

    def views(self) -> Sequence[PageView[Any]]:
        from strowger_gateway.gateway.governance.spend_caps.admin import VIEW

        return (VIEW,)
