"""The limits of a serving process: its accounts, or what it leases of those of all processes."""

from collections.abc import Sequence
from time import monotonic_ns
from typing import TYPE_CHECKING, cast

from strowger_gateway.gateway.config.schema.config import Config
from strowger_gateway.gateway.governance.issued_keys.process_side import KeysSide
from strowger_gateway.gateway.governance.leases.messages import ToLeader, ToWorker
from strowger_gateway.gateway.governance.limits.lease_worker import LimitLeaseWorker
from strowger_gateway.gateway.governance.limits.ledger import LimitRefusal
from strowger_gateway.gateway.governance.limits.limits import RequestLimits
from strowger_gateway.gateway.governance.limits.messages import StandingsAsked
from strowger_gateway.gateway.governance.limits.metrics import LimitCollector
from strowger_gateway.gateway.governance.limits.standing import (
    LimitPlace,
    LimitStanding,
    standings,
)
from strowger_gateway.gateway.parts.leader_side import Work
from strowger_gateway.gateway.parts.process_side import ProcessContext, ProcessSide

if TYPE_CHECKING:
    from strowger_gateway.gateway.governance.limits.leader_side import LimitsLeader


class LimitsSide(ProcessSide[ToLeader, ToWorker[LimitRefusal]]):
    """limits: those of requests, over all generations of the configuration."""

    receives = ToWorker[LimitRefusal]

    def __init__(self, at: ProcessContext) -> None:
        keys = at.side(KeysSide)
        keys.follow_rules(self._apply)
        self._rules = keys.rules
        own = None if at.leader is None else cast("LimitsLeader", at.leader).own
        self.limits = RequestLimits(()) if own is None else own
        leases = own is None and not (at.alone and at.leader is None)
        self._leases = LimitLeaseWorker(self.limits, at.send) if leases else None
        self._ask = at.ask
        self._apply()
        at.registry.register(LimitCollector(self.limits))

    def use(self, config: Config) -> None:
        self._apply()

    def on_message(self, message: ToWorker[LimitRefusal]) -> None:
        if self._leases is not None:
            self._leases.on_message(message)

    def works(self) -> Sequence[Work]:
        return () if self._leases is None else (("lease reports", self._leases.report),)

    async def standings(self, places: Sequence[LimitPlace]) -> tuple[LimitStanding, ...]:
        """Return what is used at these places, by all processes. Raises Unavailable."""
        if self._leases is None:
            return standings(self.limits, places, monotonic_ns())
        return await self._ask(StandingsAsked(places=tuple(places)), tuple[LimitStanding, ...])

    def _apply(self) -> None:
        """Hold requests to the limits of the configuration and of issued keys."""
        limits = self._rules.limits()
        if self.limits.configured is not limits:
            self.limits.configure(limits)
