"""The configuration in force as a part: `GET /admin/config`, and the view of the page."""

from collections.abc import Sequence
from typing import Any

from strowger_gateway.gateway.parts.console import AdminRoute, PageView
from strowger_gateway.gateway.parts.leader_side import LeaderContext, LeaderSide
from strowger_gateway.gateway.parts.part import Part
from strowger_gateway.gateway.parts.process_side import ProcessContext, ProcessSide


class ConfigurationPart(Part):
    """It has no settings."""

    name = "configuration"

    def leader(self, at: LeaderContext) -> LeaderSide[Any, Any]:
        from strowger_gateway.gateway.console.configuration.leader_side import ConfigurationLeader

        return ConfigurationLeader(at)

    def process(self, at: ProcessContext) -> ProcessSide[Any, Any]:
        from strowger_gateway.gateway.console.configuration.process_side import ConfigurationSide

        return ConfigurationSide(at)

    def routes(self) -> Sequence[AdminRoute[Any]]:
        from strowger_gateway.gateway.console.configuration.admin import ROUTE

        return (ROUTE,)

    def views(self) -> Sequence[PageView[Any]]:
        from strowger_gateway.gateway.console.configuration.admin import VIEW

        return (VIEW,)
