"""The leader's side of budgets: leases for the workers, within what the gateway holds in the store.

What a worker holds counts as spent, and so does what another gateway holds. A request that lacks
room is refused only after the store was read again and the other workers have given back what they
do not need.
"""

import asyncio
import time
from collections.abc import Callable, Sequence
from typing import Final

from msgspec import Struct

from strowger_gateway.gateway.config.schema.budgets import Budget
from strowger_gateway.gateway.governance.budgets.accounts import BudgetAccount, BudgetAccounts
from strowger_gateway.gateway.governance.budgets.ledger import Shortfall, lease_place
from strowger_gateway.gateway.governance.budgets.messages import BudgetsToLeader
from strowger_gateway.gateway.governance.leases.leader import LeaseLeader, Waiting
from strowger_gateway.gateway.governance.leases.messages import LeaseNeed, Place

FRESH_S: Final = 0.25
"""What was read from the store within this time decides a refusal without another look."""


Refusal = tuple[Shortfall, ...]
"""The budgets that have no room."""


class Lost(Struct, frozen=True, kw_only=True):
    """A worker that exited. number: under which its leases count. died: monotonic seconds."""

    number: int
    writer: str
    died: float


class BudgetLeaseLeader(LeaseLeader[BudgetAccount, Refusal]):
    """The accounts of all workers, in the leader.

    waiting: requests that need a look into the store; `wake` is set when there are some.
    unavailable: the store does not answer. read_at: when it was read last, monotonic seconds.
    lost: workers that have died, until what they had recorded was imported.
    """

    def __init__(
        self,
        budgets: Callable[[], tuple[Budget, ...]],
        *,
        durable: bool = False,
        clock: Callable[[], float] = time.time,
    ) -> None:
        """budgets: the current configuration's. clock: Unix seconds.

        durable: records reach a store, which BudgetSync reads.
        """
        super().__init__(time.monotonic_ns)
        self.accounts = BudgetAccounts(durable=durable)
        self.waiting: list[Waiting[Refusal]] = []
        self.wake = asyncio.Event()
        self.unavailable = False
        self.read_at = float("-inf")
        self.lost: list[Lost] = []
        self.clock = clock
        self._durable = durable
        self._current = budgets
        self._configured: tuple[Budget, ...] = ()
        self._writers: dict[int, str] = {}
        self._last_lost = 0

    @property
    def any(self) -> bool:
        """Whether there are budgets."""
        return bool(self._current())

    def on_message(self, worker: int, frame: BudgetsToLeader) -> None:
        if self.is_new(worker, frame.message):
            self.refresh()
            self._writers[worker] = frame.writer
            self.accounts.record(frame.writer, frame.recorded)
            self.receive(worker, frame.message)

    def refresh(self) -> None:
        """Apply the current configuration."""
        budgets = self._current()
        if budgets is not self._configured:
            self._configured = budgets
            self.accounts.configure(budgets, self.clock())

    def pool(self, place: Place) -> BudgetAccount | None:
        budget, subject, _ = place
        account = self.accounts.find(budget, subject, self.clock())
        return None if account is None or _place(account) != place else account

    def free(self, pool: BudgetAccount) -> int:
        """What is left, and with a store, what this gateway holds there of it."""
        if self._durable and not self.unavailable:
            return min(pool.left, pool.held - pool.mine)
        return pool.left

    def forget(self, worker: int) -> None:
        """What a worker that has exited had leased may have been used, and counts for a while."""
        self._last_lost -= 1
        number = self._last_lost
        for account in self.accounts:
            loan = account.loans.pop(worker, None)
            if loan is not None and loan.amount:
                account.loans[number] = loan
        writer = self._writers.pop(worker, "")
        self.lost.append(Lost(number=number, writer=writer, died=time.monotonic()))

    def judge(self, waiting: Waiting[Refusal]) -> None:
        """Answer a request, or let it wait for what could still give it room."""
        wanted = self._wanted(waiting)
        if self.unavailable and any(one.budget.on_outage == "refuse" for one, _ in wanted):
            self.give_up(waiting, "the store does not answer")
            return
        online = self._durable and not self.unavailable
        lacking = [(one, need) for one, need in wanted if one.left < need.amount]
        if online and not all(one.known for one, _ in wanted):
            self._look(waiting)
        elif lacking:
            if not online or waiting.tries or time.monotonic() - self.read_at < FRESH_S:
                holders = [
                    worker
                    for one, _ in lacking
                    for worker, loan in one.loans.items()
                    if loan.amount
                ]
                self.refuse(waiting, tuple([_shortfall(*one) for one in lacking]), holders)
            else:
                self._look(waiting)
        elif online and any(one.mine + need.amount > one.held for one, need in wanted):
            self._look(waiting)
        else:
            self.grant(waiting, wanted)

    def give_up(self, waiting: Waiting[Refusal], why: str) -> None:
        """Refuse a request whose budgets cannot be checked."""
        self.fail(waiting, f"budgets cannot be checked: {why}")

    def _wanted(self, waiting: Waiting[Refusal]) -> Sequence[tuple[BudgetAccount, LeaseNeed]]:
        found: list[tuple[BudgetAccount, LeaseNeed]] = []
        for need in waiting.ask.needs:
            account = self.pool(need.place)
            if account is not None:
                account.asked_at = time.monotonic()
                found.append((account, need))
        return found

    def _look(self, waiting: Waiting[Refusal]) -> None:
        """Let the request wait for the store."""
        self.waiting.append(waiting)
        self.wake.set()


def _place(account: BudgetAccount) -> Place:
    budget = account.budget
    return lease_place(budget.name, account.subject, usd=budget.usd is not None)


def _shortfall(account: BudgetAccount, need: LeaseNeed) -> Shortfall:
    """Why it has no room. What the worker holds for the request counts as left."""
    return Shortfall(
        budget=account.budget.name,
        limit=account.limit,
        left=max(0, account.left + need.whole - need.amount),
        need=need.whole,
        spent=account.spent,
        resets=account.period.resets,
    )
