"""The leader's side of budgets: leases for the workers, within what the gateway holds in the store.

What a worker holds counts as spent, and so does what another gateway holds. A request that lacks
room is refused only after the store was read again and the other workers have given back what they
do not need.
"""

import asyncio
import time
from collections.abc import Callable

from msgspec import Struct

from gateway.budgets.accounts import BudgetAccount, BudgetAccounts
from gateway.budgets.ledger import Short
from gateway.budgets.messages import (
    BudgetAsk,
    BudgetDenial,
    BudgetGrant,
    BudgetOutage,
    BudgetRecall,
    BudgetReport,
    Share,
    ToLeader,
    ToWorker,
)
from gateway.config.schema.budgets import Budget

PART = 64
"""A lease is at most this part of a budget, beyond what the request needs."""

RECALL_S = 0.25
"""How long to wait for what other workers give back; a worker that hangs gives nothing."""

FRESH_S = 0.25
"""What was read from the store within this time decides a refusal without another look."""

Send = Callable[[ToWorker], None]


class Waiting(Struct, eq=False):
    """A request that waits: for the store, or for what other workers give back.

    recalled: workers that have given it back. tries: readings of the store so far.
    """

    worker: int
    ask: BudgetAsk
    recalled: set[int] = set()
    tries: int = 0


class _Recalling(Struct, eq=False):
    """Requests that wait until other workers have given back what they hold."""

    missing: set[int]
    waiting: Waiting
    timer: asyncio.TimerHandle


class Lost(Struct, frozen=True, kw_only=True):
    """A worker that exited. number: under which its leases count. died: monotonic seconds."""

    number: int
    writer: str
    died: float


class BudgetBank:
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
        self.accounts = BudgetAccounts(durable=durable)
        self.waiting: list[Waiting] = []
        self.wake = asyncio.Event()
        self.unavailable = False
        self.read_at = float("-inf")
        self.lost: list[Lost] = []
        self.clock = clock
        self._durable = durable
        self._current = budgets
        self._configured: tuple[Budget, ...] = ()
        self._workers: dict[int, Send] = {}
        self._writers: dict[int, str] = {}
        self._recalls: dict[int, _Recalling] = {}
        self._last_number = 0

    def join(self, worker: int, send: Send) -> None:
        self._workers[worker] = send

    def leave(self, worker: int) -> None:
        """A worker has exited. What it had leased may have been used, and counts for a while."""
        self._workers.pop(worker, None)
        self._last_number += 1
        number = -self._last_number
        for account in self.accounts:
            if amount := account.lent.pop(worker, 0):
                account.lent[number] = amount
        writer = self._writers.pop(worker, "")
        self.lost.append(Lost(number=number, writer=writer, died=time.monotonic()))
        for recall in tuple(self._recalls):
            self._gave_back(recall, worker)

    def refresh(self) -> None:
        """Apply the current configuration."""
        budgets = self._current()
        if budgets is not self._configured:
            self._configured = budgets
            self.accounts.configure(budgets, self.clock())

    @property
    def any(self) -> bool:
        """Whether there are budgets."""
        return bool(self._current())

    def on_message(self, worker: int, message: ToLeader) -> None:
        self.refresh()
        match message:
            case BudgetAsk():
                self.decide(Waiting(worker, message))
            case BudgetReport():
                self._report(worker, message)
                if message.recall:
                    self._gave_back(message.recall, worker)

    def _report(self, worker: int, report: BudgetReport) -> None:
        self._writers[worker] = report.writer
        self.accounts.record(report.writer, report.recorded)
        for use in report.uses:
            account = self.accounts.find(use.budget, use.subject, self.clock())
            if account is not None:
                lent = account.lent.get(worker, 0)
                account.lent[worker] = max(0, lent + use.overdrawn - use.spent - use.returned)

    def decide(self, waiting: Waiting) -> None:
        """Answer a request, or let it wait for what could still give it room."""
        worker, ask = waiting.worker, waiting.ask
        if worker not in self._workers:
            return
        accounts, at = list[tuple[BudgetAccount, int]](), self.clock()
        for one in ask.lacking:
            account = self.accounts.find(one.budget, one.subject, at)
            if account is not None:
                account.asked_at = time.monotonic()
                accounts.append((account, one.amount))
        if self.unavailable and any(one.budget.on_outage == "refuse" for one, _ in accounts):
            self.give_up(waiting, "the store does not answer")
            return
        online = self._durable and not self.unavailable
        lacking = [one for one, amount in accounts if one.left < amount]
        if online and not all(one.known for one, _ in accounts):
            self._look(waiting)
        elif lacking:
            if not online or waiting.tries or time.monotonic() - self.read_at < FRESH_S:
                self._refuse(waiting, lacking)
            else:
                self._look(waiting)
        elif online and any(one.mine + amount > one.held for one, amount in accounts):
            self._look(waiting)
        else:
            granted = [self._lend(worker, one, amount) for one, amount in accounts]
            self._workers[worker](BudgetGrant(id=ask.id, granted=tuple(granted)))

    def give_up(self, waiting: Waiting, why: str) -> None:
        """Refuse a request whose budgets cannot be checked."""
        send = self._workers.get(waiting.worker)
        if send is not None:
            send(BudgetOutage(id=waiting.ask.id, why=why))

    def _look(self, waiting: Waiting) -> None:
        """Let the request wait for the store."""
        self.waiting.append(waiting)
        self.wake.set()

    def _refuse(self, waiting: Waiting, lacking: list[BudgetAccount]) -> None:
        """Refuse the request, once other workers have given back what they do not need."""
        worker, ask = waiting.worker, waiting.ask
        others = {
            other
            for account in lacking
            for other, amount in account.lent.items()
            if amount and other != worker and other in self._workers
        }
        # What they report may show that another budget lacks room, of which others hold a part.
        if others := others - waiting.recalled:
            waiting.recalled |= others
            self._recall(others, waiting)
            return
        # What the request needs, and what of that the worker has already.
        needs = {
            (one.budget, one.subject): (need, need - one.amount)
            for one, need in zip(ask.lacking, ask.needs, strict=True)
        }
        short = [
            Short(
                budget=one.budget.name,
                limit=one.limit,
                left=max(0, one.left + needs[one.budget.name, one.subject][1]),
                need=needs[one.budget.name, one.subject][0],
                spent=one.spent,
                resets=one.period.resets,
            )
            for one in lacking
        ]
        self._workers[worker](BudgetDenial(id=ask.id, short=tuple(short)))

    def _recall(self, others: set[int], waiting: Waiting) -> None:
        self._last_number += 1
        number = self._last_number
        timer = asyncio.get_running_loop().call_later(RECALL_S, self._recalled, number)
        self._recalls[number] = _Recalling(set(others), waiting, timer)
        places = tuple([(one.budget, one.subject) for one in waiting.ask.lacking])
        for other in others:
            self._workers[other](BudgetRecall(id=number, accounts=places))

    def _gave_back(self, number: int, worker: int) -> None:
        recall = self._recalls.get(number)
        if recall is not None:
            recall.missing.discard(worker)
            if not recall.missing:
                self._recalled(number)

    def _recalled(self, number: int) -> None:
        recall = self._recalls.pop(number)
        recall.timer.cancel()
        self.decide(recall.waiting)

    def _lend(self, worker: int, account: BudgetAccount, need: int) -> Share:
        """Lease what is lacking, and some more while there is much."""
        free = account.left
        if self._durable and not self.unavailable:
            free = min(free, account.held - account.mine)
        spare = (free - need) // (4 * len(self._workers))
        amount = need + max(0, min(spare, account.limit // PART))
        account.lent[worker] = account.lent.get(worker, 0) + amount
        return Share(account.budget.name, account.subject, amount)
