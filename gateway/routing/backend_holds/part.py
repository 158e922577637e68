"""Drained and disabled backends as a part: kept in the store, in effect in all gateways."""

from collections.abc import Sequence
from typing import Any

from strowger_gateway.gateway.parts.console import AdminRoute, PageView
from strowger_gateway.gateway.parts.leader_side import LeaderContext, LeaderSide
from strowger_gateway.gateway.parts.part import Part
from strowger_gateway.gateway.parts.process_side import ProcessContext, ProcessSide


class BackendHoldsPart(Part):
    """It has no settings: operators hold backends while the gateway runs."""

    name = "backend_holds"

    def leader(self, at: LeaderContext) -> LeaderSide[Any, Any]:
        from strowger_gateway.gateway.routing.backend_holds.leader_side import HoldsLeader

        return HoldsLeader(at)

    def process(self, at: ProcessContext) -> ProcessSide[Any, Any]:
        from strowger_gateway.gateway.routing.backend_holds.process_side import HoldsSide

        return HoldsSide(at)

    def routes(self) -> Sequence[AdminRoute[Any]]:
        from strowger_gateway.gateway.routing.backend_holds.admin import ROUTES

        return ROUTES

    def views(self) -> Sequence[PageView[Any]]:
        from strowger_gateway.gateway.routing.backend_holds.page import VIEW

        return (VIEW,)
