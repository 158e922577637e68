"""Events of backends as a part: each process sees its own, the leader keeps all."""

from typing import Any

from strowger_gateway.gateway.parts.leader_side import LeaderContext, LeaderSide
from strowger_gateway.gateway.parts.part import Part
from strowger_gateway.gateway.parts.process_side import ProcessContext, ProcessSide


class BackendEventsPart(Part):
    """It has no settings."""

    name = "backend_events"

    def leader(self, at: LeaderContext) -> LeaderSide[Any, Any]:
        from strowger_gateway.gateway.routing.backend_events.leader_side import BackendEventsLeader

        return BackendEventsLeader(at)

    def process(self, at: ProcessContext) -> ProcessSide[Any, Any]:
        from strowger_gateway.gateway.routing.backend_events.process_side import BackendEventsSide

        return BackendEventsSide(at)
