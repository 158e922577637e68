"""What processes, and gateways, share of their backends: circuits, loads, outcomes."""

from typing import Any

from strowger_gateway.gateway.parts.leader_side import LeaderContext, LeaderSide
from strowger_gateway.gateway.parts.part import Part
from strowger_gateway.gateway.parts.process_side import ProcessContext, ProcessSide


class CoordinationPart(Part):
    """`store.redis_url` is a field of `Config`."""

    name = "coordination"

    def leader(self, at: LeaderContext) -> LeaderSide[Any, Any]:
        from strowger_gateway.gateway.coordination.leader_side import CoordinationLeader

        return CoordinationLeader(at)

    def process(self, at: ProcessContext) -> ProcessSide[Any, Any]:
        from strowger_gateway.gateway.coordination.process_side import CoordinationSide

        return CoordinationSide(at)
