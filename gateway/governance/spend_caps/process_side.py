"""The spend caps of a serving process: what its attempts cost, and what may not be asked."""

from collections.abc import Callable
from typing import Final

from strowger_gateway.gateway.config.schema.config import Config
from strowger_gateway.gateway.governance.spend_caps.messages import BackendCosts, CapsInForce
from strowger_gateway.gateway.governance.spend_caps.standing import CapStanding, capped
from strowger_gateway.gateway.observability.recording.ended_requests import EndedRequests
from strowger_gateway.gateway.parts.process_side import ProcessContext, ProcessSide
from strowger_gateway.gateway.routing.backend_holds.process_side import HoldsSide

_NANOS: Final = 1e9


class SpendCapsSide(ProcessSide[BackendCosts, CapsInForce]):
    """standings: how far each cap is used up, in all gateways."""

    receives = CapsInForce

    def __init__(self, at: ProcessContext) -> None:
        self._send = at.send
        self._holds = at.side(HoldsSide)
        self._capped: frozenset[str] = frozenset()
        self.standings: tuple[CapStanding, ...] = ()
        self.use(at.config())
        self.on_message(at.first(CapsInForce) or CapsInForce())

    def use(self, config: Config) -> None:
        self._capped = frozenset(name for name, _ in capped(config))

    def on_message(self, message: CapsInForce) -> None:
        self.standings = message.standings
        self._holds.cap(message.holds)

    def taker(self) -> Callable[[EndedRequests], None] | None:
        """See TakesEnded: without a cap, nothing is added up."""
        return self._take if self._capped else None

    def _take(self, ended: EndedRequests) -> None:
        """Send what attempts at providers with a cap have cost."""
        nanos: dict[str, int] = {}
        last = 0.0
        several = {row.request_id for row in ended.attempts}
        for line in ended.lines:
            if line.request_id not in several and line.cost_usd and line.attempts:
                last = max(last, line.time)
                self._add(nanos, line.backend, line.cost_usd)
        for row in ended.attempts:
            if row.cost_usd:
                last = max(last, row.time)
                self._add(nanos, row.backend, row.cost_usd)
        if nanos:
            self._send(BackendCosts(last, nanos))

    def _add(self, nanos: dict[str, int], backend: str, usd: float) -> None:
        if backend.partition("/")[0] in self._capped:
            nanos[backend] = nanos.get(backend, 0) + round(usd * _NANOS)
