"""Providers with several keys as a part: what one process learns of a key, all know."""

from collections.abc import Sequence
from typing import Any

from strowger_gateway.gateway.parts.console import AdminRoute, PageView
from strowger_gateway.gateway.parts.leader_side import LeaderContext, LeaderSide
from strowger_gateway.gateway.parts.part import Part
from strowger_gateway.gateway.parts.process_side import ProcessContext, ProcessSide


class KeyPoolsPart(Part):
    """`api_keys` is a field of providers."""

    name = "key_pools"

    def leader(self, at: LeaderContext) -> LeaderSide[Any, Any]:
        from strowger_gateway.gateway.governance.provider_keys.leader_side import KeyPoolsLeader

        return KeyPoolsLeader(at)

    def process(self, at: ProcessContext) -> ProcessSide[Any, Any]:
        from strowger_gateway.gateway.governance.provider_keys.process_side import KeyPoolsSide

        return KeyPoolsSide(at)

    def routes(self) -> Sequence[AdminRoute[Any]]:
        from strowger_gateway.gateway.governance.provider_keys.admin import ROUTE

        return (ROUTE,)

    def views(self) -> Sequence[PageView[Any]]:
        from strowger_gateway.gateway.governance.provider_keys.page import VIEW

        return (VIEW,)
