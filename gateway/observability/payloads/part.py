"""Payload logging as a part: what requests and answers contain, redacted."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from strowger_gateway.gateway.config.problems import Problems
from strowger_gateway.gateway.config.schema.config import Config
from strowger_gateway.gateway.observability.recording.ended_requests import EndedRequests
from strowger_gateway.gateway.parts.part import Part
from strowger_gateway.gateway.parts.process_side import ProcessContext, ProcessSide
from strowger_gateway.gateway.stages.request_part import RequestSide

if TYPE_CHECKING:
    from strowger_gateway.gateway.observability.payloads.payloads import PayloadLog
    from strowger_gateway.gateway.stages.generation import Generation
    from strowger_gateway.gateway.stages.stage import Stage
    from strowger_gateway.gateway.surfaces.hot_route import HotRoute


class PayloadsPart(Part):
    """`logging.payloads` is a field of `Config`. While it is off, nothing is imported."""

    name = "payloads"

    def check(self, config: Config, problems: Problems) -> None:
        from strowger_gateway.gateway.observability.payloads.check import check_payloads

        check_payloads(config, problems)

    def process(self, at: ProcessContext) -> ProcessSide[Any, Any]:
        return PayloadsSide(at)


class PayloadsSide(RequestSide[None, None]):
    """Logs over all generations. rows: the payloads in the store; `None` without one."""

    def __init__(self, at: ProcessContext) -> None:
        self._at = at
        self._log: PayloadLog | None = None
        self.rows = None if at.store is None else at.store.payloads

    def follow(self, generation: "Generation") -> None:
        """Begin or end payload logging."""
        config = generation.config
        if config.logging.payloads.mode != "off" and self._log is None:
            from strowger_gateway.gateway.observability.payloads.payloads import PayloadLog

            at = self._at
            self._log = PayloadLog(at.registry, at.crashed, lambda: at.worker, lambda: self.rows)
        if self._log is not None:
            self._log.configure(config)

    def stages(self, generation: "Generation", prepared: None, at: "HotRoute") -> "Sequence[Stage]":
        if self._log is None or generation.config.logging.payloads.mode == "off":
            return ()
        from strowger_gateway.gateway.observability.payloads.payloads import CaptureStage

        return (CaptureStage(self._log),)

    def taker(self) -> Callable[[EndedRequests], None] | None:
        """See TakesEnded."""
        return None if self._log is None else self._log.finish

    async def close(self, within_s: float) -> None:
        """Write the payloads that are queued."""
        self._at.flush()
        if self._log is not None:
            await self._log.close(within_s)
