"""A worker's side of limits over several processes: what its requests lack, and its overdraft."""

from collections.abc import Callable, Sequence
from time import monotonic_ns
from typing import Final

from msgspec import Struct

from strowger_gateway.gateway.governance.leases.messages import (
    LeaseGrant,
    LeaseNeed,
    ToLeader,
    ToWorker,
)
from strowger_gateway.gateway.governance.leases.worker import LeaseWorker
from strowger_gateway.gateway.governance.limits.leased import LeasedPart
from strowger_gateway.gateway.governance.limits.ledger import Accounts, Hold, LimitRefusal
from strowger_gateway.gateway.governance.limits.limits import RequestLimits, leased_parts
from strowger_gateway.gateway.governance.limits.overdraft import LimitOverdraft

ASK_S: Final = 4.0
"""How long a request waits for the leader's answer."""


class _LimitedRequest(Struct, frozen=True):
    """A request that lacks room in its accounts. clock: nanoseconds."""

    accounts: Accounts
    tokens: int
    clock: Callable[[], int]

    @property
    def own(self) -> Sequence[LeasedPart]:
        return [part for account in self.accounts.all for part in leased_parts(account)]

    def needs(self, *, alone: bool) -> tuple[LeaseNeed, ...]:
        """All quantities of accounts that lack something: the answer has the remaining amounts."""
        found: list[LeaseNeed] = []
        for account in self.accounts.all:
            needs = [self._need(part, alone=alone) for part in leased_parts(account)]
            if any(need.amount for need in needs):
                found += needs
        return tuple(found)

    def _need(self, part: LeasedPart, *, alone: bool) -> LeaseNeed:
        whole = self.tokens if part.place[2] == "tokens" else 1
        room = min(part.room, 0) if alone else part.room
        lacking = max(0, whole - room) if whole else 0
        return LeaseNeed(part.place, lacking, whole, part.running)

    def reserve(self) -> Hold | None:
        return self.accounts.reserve(self.tokens, self.clock())

    def release(self, hold: Hold) -> None:
        hold.settle(0, self.clock())


class LimitLeaseWorker(LeaseWorker[LeasedPart, Hold, LimitRefusal]):
    """The leases of one worker of limits."""

    def __init__(
        self,
        limits: RequestLimits,
        send: Callable[[ToLeader], None],
        clock: Callable[[], int] = monotonic_ns,
    ) -> None:
        """limits: of this worker; their accounts become leases. clock: nanoseconds."""
        super().__init__("limits", limits, send, ask_s=ASK_S, clock=clock)
        self._overdraft = LimitOverdraft()
        limits.lease(self)

    async def ask(self, accounts: Accounts, tokens: int) -> Hold | LimitRefusal:
        """Reserve a request that lacks room here, with what the leader leases for it."""
        refusal = accounts.too_large(tokens)
        if refusal is not None:
            return refusal
        request = _LimitedRequest(accounts, tokens, self._clock)
        return self._overdrawn(request) or await self.obtain(request)

    def on_message(self, message: ToWorker[LimitRefusal]) -> None:
        if isinstance(message, LeaseGrant):
            self._overdraft.repaid(message)
        super().on_message(message)

    def _overdrawn(self, request: _LimitedRequest) -> Hold | None:
        """Reserve a request at once if all limits that lack room allow it; ask without waiting."""
        needs, number = request.needs(alone=False), self.next_number()
        hold = self._overdraft.reserve(
            request.accounts, request.tokens, needs, number, self._clock()
        )
        if hold is not None:
            self.report_of(request.own)
            self.ask_ahead(number, needs)
        return hold
