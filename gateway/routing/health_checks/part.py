"""Health checks as a part: one process of the gateway runs them."""

from typing import Any

from strowger_gateway.gateway.parts.part import Part
from strowger_gateway.gateway.parts.process_side import ProcessContext, ProcessSide


class HealthChecksPart(Part):
    """`health_check` is a field of providers and backends."""

    name = "health_checks"

    def process(self, at: ProcessContext) -> ProcessSide[Any, Any]:
        from strowger_gateway.gateway.routing.health_checks.process_side import HealthChecksSide

        return HealthChecksSide(at)
