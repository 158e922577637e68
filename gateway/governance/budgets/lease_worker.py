"""A worker's side of budgets: what its requests lack, and what was recorded of those that ended."""

from collections.abc import Callable, Sequence
from typing import Final

from msgspec import Struct

from strowger_gateway.gateway.governance.budgets.budgets import Budgets
from strowger_gateway.gateway.governance.budgets.ledger import (
    BudgetLease,
    BudgetLeases,
    Cost,
    Reservation,
    Shortfall,
)
from strowger_gateway.gateway.governance.budgets.messages import BudgetsToLeader
from strowger_gateway.gateway.governance.leases.messages import (
    LeaseNeed,
    LeaseRecall,
    ToLeader,
    ToWorker,
)
from strowger_gateway.gateway.governance.leases.worker import LeaseWorker

ASK_S: Final = 10.0
"""How long a request waits for the leader's answer, which may have to wait for the store."""


class _BudgetedRequest(Struct, frozen=True):
    """A request that lacks room in its leases."""

    leases: BudgetLeases
    cost: Cost

    @property
    def own(self) -> Sequence[BudgetLease]:
        return self.leases.hard

    def needs(self, *, alone: bool) -> tuple[LeaseNeed, ...]:
        needs = [(lease, lease.need(self.cost)) for lease in self.own]
        return tuple(
            [
                LeaseNeed(lease.place, whole - (min(lease.room, 0) if alone else lease.room), whole)
                for lease, whole in needs
                if alone or lease.room < whole
            ]
        )

    def reserve(self) -> Reservation | None:
        return self.leases.reserve(self.cost)

    def release(self, hold: Reservation) -> None:
        hold.settle(None)


class BudgetLeaseWorker(LeaseWorker[BudgetLease, Reservation, tuple[Shortfall, ...]]):
    """The leases of one worker of budgets."""

    def __init__(
        self,
        budgets: Budgets,
        send: Callable[[BudgetsToLeader], None],
        flush: Callable[[], None],
    ) -> None:
        """budgets: of this worker. flush: settles the requests that have ended."""
        super().__init__("budgets", budgets, self._send_frame, ask_s=ASK_S)
        self._send_to_leader = send
        self._budgets = budgets
        self._flush = flush
        budgets.asker = self

    async def ask(self, leases: BudgetLeases, cost: Cost) -> Reservation | tuple[Shortfall, ...]:
        """Reserve a request that lacks room here, with what the leader leases for it."""
        self.report_now()
        return await self.obtain(_BudgetedRequest(leases, cost))

    def on_message(self, message: ToWorker[tuple[Shortfall, ...]]) -> None:
        if isinstance(message, LeaseRecall):
            self._flush()
        super().on_message(message)

    def report_now(self) -> None:
        """Report what was spent, and keep the leases."""
        self.report_of(tuple(self._budgets.busy), age=0)

    def has_news(self) -> bool:
        return self._budgets.has_recorded

    def _send_frame(self, message: ToLeader) -> None:
        recorded = self._budgets.take_recorded()
        self._send_to_leader(BudgetsToLeader(message, self._budgets.writer, recorded))
