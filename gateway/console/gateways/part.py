"""The gateways as a part: `GET /admin/gateways`, and the view of gateways and engines."""

from collections.abc import Sequence
from typing import Any

from strowger_gateway.gateway.parts.console import AdminRoute, PageView
from strowger_gateway.gateway.parts.leader_side import LeaderContext, LeaderSide
from strowger_gateway.gateway.parts.part import Part
from strowger_gateway.gateway.parts.process_side import ProcessContext, ProcessSide


class GatewaysPart(Part):
    """It has no settings."""

    name = "gateways"

    def leader(self, at: LeaderContext) -> LeaderSide[Any, Any]:
        from strowger_gateway.gateway.console.gateways.leader_side import GatewaysLeader

        return GatewaysLeader(at)

    def process(self, at: ProcessContext) -> ProcessSide[Any, Any]:
        from strowger_gateway.gateway.console.gateways.process_side import GatewaysSide

        return GatewaysSide(at)

    def routes(self) -> Sequence[AdminRoute[Any]]:
        from strowger_gateway.gateway.console.gateways.admin import ROUTE

        return (ROUTE,)

    def views(self) -> Sequence[PageView[Any]]:
        from strowger_gateway.gateway.console.gateways.admin import VIEW

        return (VIEW,)
