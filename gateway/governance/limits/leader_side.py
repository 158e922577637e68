"""The accounts of all processes, once per gateway: in the leader, or in Redis for several gateways.

A gateway of one process that shares nothing has no leases: the accounts of its requests are here.
"""

from collections.abc import Callable, Sequence
from time import monotonic_ns
from typing import TYPE_CHECKING

from strowger_gateway.gateway.governance.issued_keys.leader_side import KeysLeader
from strowger_gateway.gateway.governance.leases.messages import ToLeader, ToWorker
from strowger_gateway.gateway.governance.limits.carried import CarriedUse, carried, carry
from strowger_gateway.gateway.governance.limits.lease_leader import LimitLeaseLeader
from strowger_gateway.gateway.governance.limits.ledger import Account, LimitRefusal
from strowger_gateway.gateway.governance.limits.limits import RequestLimits
from strowger_gateway.gateway.governance.limits.messages import StandingsAsked
from strowger_gateway.gateway.governance.limits.metrics import LimitUseCollector
from strowger_gateway.gateway.governance.limits.over_gateways.setup import shared_limits
from strowger_gateway.gateway.governance.limits.standing import LimitStanding
from strowger_gateway.gateway.parts.leader_side import LeaderContext, LeaderSide, Work

if TYPE_CHECKING:
    from strowger_gateway.gateway.governance.limits.over_gateways.shared_limits import SharedLimits

ToWorkers = ToWorker[LimitRefusal]


class LimitsLeader(LeaderSide[ToLeader, ToWorkers]):
    """own: the accounts of the only process; `None` if processes lease from others."""

    receives = ToLeader
    questions = StandingsAsked
    carries = tuple[CarriedUse, ...]

    def __init__(self, at: LeaderContext) -> None:
        """Raises InvalidConfig."""
        rules = at.side(KeysLeader).rules
        self._shared: SharedLimits | None = shared_limits(at.first, rules.limits)
        self.own = RequestLimits(()) if at.alone and self._shared is None else None
        self._lent = self._shared or LimitLeaseLeader(rules.limits)
        at.registry.register(LimitUseCollector(self._accounts))

    def joined(self, worker: int, send: Callable[[ToWorkers], None]) -> None:
        if self.own is None:
            self._lent.join(worker, send)

    def left(self, worker: int) -> None:
        if self.own is None:
            self._lent.leave(worker)

    def on_message(self, worker: int, message: ToLeader) -> None:
        self._lent.on_message(worker, message)

    async def answer(self, question: StandingsAsked) -> tuple[LimitStanding, ...]:
        return await self._lent.standings(question.places)

    def works(self) -> Sequence[Work]:
        return () if self._shared is None else (("limits over gateways", self._shared.run),)

    def carried(self) -> tuple[CarriedUse, ...] | None:
        """Return what counts in this gateway; nothing if Redis counts it."""
        return None if self._shared else carried(self._accounts(), monotonic_ns())

    def carry(self, found: tuple[CarriedUse, ...]) -> None:
        if self._shared is None:
            carry(self._account, found, monotonic_ns())

    def _accounts(self) -> Sequence[Account]:
        return (self.own or self._lent).accounts()

    def _account(self, limit: str, subject: str) -> Account | None:
        if self.own is not None:
            return self.own.account(limit, subject)
        assert isinstance(self._lent, LimitLeaseLeader)
        return self._lent.account(limit, subject)
