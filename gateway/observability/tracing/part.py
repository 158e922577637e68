"""Tracing as a part: spans and metrics of requests, exported over OTLP."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from strowger_gateway.gateway.config.problems import Problems
from strowger_gateway.gateway.config.schema.config import Config
from strowger_gateway.gateway.observability.recording.ended_requests import EndedRequests
from strowger_gateway.gateway.parts.part import Part
from strowger_gateway.gateway.parts.process_side import ProcessContext, ProcessSide
from strowger_gateway.gateway.stages.request_part import RequestSide

if TYPE_CHECKING:
    from strowger_gateway.gateway.observability.tracing.tracing import Tracing
    from strowger_gateway.gateway.stages.generation import Generation
    from strowger_gateway.gateway.stages.stage import Stage
    from strowger_gateway.gateway.surfaces.hot_route import HotRoute


class TracingPart(Part):
    """`telemetry.otlp` is a field of `Config`. Without it, nothing is imported."""

    name = "tracing"

    def check(self, config: Config, problems: Problems) -> None:
        from strowger_gateway.gateway.observability.tracing.check import check_telemetry

        check_telemetry(config, problems)

    def process(self, at: ProcessContext) -> ProcessSide[Any, Any]:
        return TracingSide(at)


class TracingSide(RequestSide[None, None]):
    """tracing: over all generations; `None` if none was traced."""

    def __init__(self, at: ProcessContext) -> None:
        self.tracing: Tracing | None = None
        self._registry, self._crashed, self._flush = at.registry, at.crashed, at.flush

    def follow(self, generation: "Generation") -> None:
        """Begin or end tracing. Requests of earlier generations are exported when they end."""
        config = generation.config
        if config.telemetry.otlp is not None and self.tracing is None:
            from strowger_gateway.gateway.observability.tracing.tracing import Tracing

            self.tracing = Tracing(self._registry, self._crashed)
        if self.tracing is not None:
            self.tracing.configure(config)

    def stages(self, generation: "Generation", prepared: None, at: "HotRoute") -> "Sequence[Stage]":
        if self.tracing is None or generation.config.telemetry.otlp is None:
            return ()
        from strowger_gateway.gateway.observability.tracing.tracing import TraceStage

        return (TraceStage(self.tracing, at),)

    def taker(self) -> Callable[[EndedRequests], None] | None:
        """See TakesEnded."""
        return None if self.tracing is None else self.tracing.add

    async def close(self, within_s: float) -> None:
        """Send the spans that are queued."""
        self._flush()
        if self.tracing is not None:
            await self.tracing.close(within_s)
