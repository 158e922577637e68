"""The spend caps of a serving process: what its attempts cost, and what may not be asked."""

from collections.abc import Callable

from strowger_gateway.gateway.config.schema.config import Config
from strowger_gateway.gateway.governance.budgets.budgets import Budgets
from strowger_gateway.gateway.governance.spend_caps.messages import BackendCosts, CapsInForce
from strowger_gateway.gateway.governance.spend_caps.standing import CapStanding, capped
from strowger_gateway.gateway.observability.recording.ended_requests import EndedRequests
from strowger_gateway.gateway.parts.process_side import ProcessContext, ProcessSide
from strowger_gateway.gateway.routing.backend_holds.process_side import HoldsSide
from strowger_gateway.gateway.storage.sql.spend_rows import MOST_USD, NANOS, slot_of


class SpendCapsSide(ProcessSide[BackendCosts, CapsInForce]):
    """standings: how far each cap is used up, in all gateways."""

    receives = CapsInForce

    def __init__(self, at: ProcessContext) -> None:
        self._send = at.send
        self._writer = at.own(Budgets).writer
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
        slots: dict[int, dict[str, int]] = {}
        several = {row.request_id for row in ended.attempts}
        for line in ended.lines:
            if line.request_id not in several and line.cost_usd and line.attempts:
                self._add(slots, line.time, line.backend, line.cost_usd)
        for row in ended.attempts:
            if row.cost_usd:
                self._add(slots, row.time, row.backend, row.cost_usd)
        for slot, nanos in sorted(slots.items()):
            self._send(BackendCosts(self._writer, ended.batch, slot, nanos))

    def _add(self, slots: dict[int, dict[str, int]], at: float, backend: str, usd: float) -> None:
        if backend.partition("/")[0] in self._capped:
            nanos = slots.setdefault(slot_of(at), {})
            nanos[backend] = nanos.get(backend, 0) + round(min(usd, MOST_USD) * NANOS)
