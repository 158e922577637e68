"""A worker's side of budgets: what its requests lack, and what was recorded of those that ended."""

from collections.abc import Callable, Sequence
from typing import Final

from msgspec import Struct

from gateway.budgets.budgets import Budgets
from gateway.budgets.ledger import Cost, Purse, Purses, Reservation, Short
from gateway.budgets.messages import BudgetsToLeader
from gateway.leases.messages import LeaseNeed, LeaseRecall, ToLeader, ToWorker
from gateway.leases.worker import LeaseWorker

ASK_S: Final = 10.0
"""How long a request waits for the leader's answer, which may have to wait for the store."""


class _BudgetedRequest(Struct, frozen=True):
    """A request that lacks room in its purses."""

    purses: Purses
    cost: Cost

    @property
    def own(self) -> Sequence[Purse]:
        return self.purses.hard

    def needs(self, *, alone: bool) -> tuple[LeaseNeed, ...]:
        needs = [(purse, purse.need(self.cost)) for purse in self.own]
        return tuple(
            [
                LeaseNeed(purse.place, whole - (min(purse.room, 0) if alone else purse.room), whole)
                for purse, whole in needs
                if alone or purse.room < whole
            ]
        )

    def reserve(self) -> Reservation | None:
        return self.purses.reserve(self.cost)

    def release(self, hold: Reservation) -> None:
        hold.settle(None)


class BudgetLeaseWorker(LeaseWorker[Purse, Reservation, tuple[Short, ...]]):
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

    async def ask(self, purses: Purses, cost: Cost) -> Reservation | tuple[Short, ...]:
        """Reserve a request that lacks room here, with what the leader leases for it."""
        self.report_now()
        return await self.obtain(_BudgetedRequest(purses, cost))

    def on_message(self, message: ToWorker[tuple[Short, ...]]) -> None:
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
