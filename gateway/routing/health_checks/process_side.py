"""The health checks of all providers, in the first of the processes that serve."""

from collections.abc import Mapping, Sequence

from strowger_gateway.gateway.parts.leader_side import Work
from strowger_gateway.gateway.parts.process_side import ProcessContext, ProcessSide
from strowger_gateway.gateway.routing.backend_events.process_side import (
    BackendEventsSide,
    RoutedGeneration,
)
from strowger_gateway.gateway.routing.health_checks.checks import HealthChecks
from strowger_gateway.gateway.routing.planning.route import Backend


class HealthChecksSide(ProcessSide[None, None]):
    """Checks the backends in effect, if this process is the first one."""

    def __init__(self, at: ProcessContext) -> None:
        self._at = at
        self._backends: Mapping[str, Backend] = {}

    def follow(self, generation: RoutedGeneration) -> None:
        self._backends = generation.backends

    def works(self) -> Sequence[Work]:
        at = self._at
        if at.worker != 0:
            return ()
        watch = at.side(BackendEventsSide).watch
        checks = HealthChecks(at.config, lambda: self._backends, watch, at.registry)
        return (("health checks", checks.run),)
