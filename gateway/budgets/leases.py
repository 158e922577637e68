"""A worker's side of budgets: ask the leader for leases, and report what was spent of them."""

import asyncio
import time
from collections.abc import Callable, Iterable
from itertools import count
from typing import Final

from msgspec import Struct

from gateway.budgets.budgets import Budgets
from gateway.budgets.ledger import Cost, Purse, Purses, Reservation, Short
from gateway.budgets.messages import (
    BudgetAsk,
    BudgetDenial,
    BudgetGrant,
    BudgetOutage,
    BudgetRecall,
    BudgetReport,
    PurseUse,
    Share,
    ToLeader,
    ToWorker,
)
from schemas.errors import Unavailable

REPORT_S: Final = 0.1
"""Interval between reports."""

IDLE_REPORTS: Final = 10
"""Reports without a use, after which an unused lease is given back."""

MOST_TRIES: Final = 8
"""Answers for one request; more than two are needed only while a reload removes a budget."""

ASK_S: Final = 10.0
"""How long a request waits for the leader's answer, which may have to wait for the store."""


class _Asking(Struct, eq=False):
    """A request that waits for the leader."""

    purses: Purses
    cost: Cost
    answer: "asyncio.Future[Reservation | tuple[Short, ...] | None]"


class BudgetLeases:
    """The leases of one worker."""

    def __init__(
        self, budgets: Budgets, send: Callable[[ToLeader], None], flush: Callable[[], None]
    ) -> None:
        """budgets: of this worker. flush: settles the requests that have ended."""
        self._budgets = budgets
        self._send = send
        self._flush = flush
        self._ids = count(time.monotonic_ns())  # unlike those of a process that this one replaces
        self._asking: dict[int, _Asking] = {}
        budgets.asker = self

    async def ask(self, purses: Purses, cost: Cost) -> Reservation | tuple[Short, ...]:
        """Reserve a request that lacks room here, with what the leader leases for it."""
        self.report_now()
        result = await self._ask(purses, cost, alone=False)
        for _ in range(MOST_TRIES):
            if result is not None:
                return result
            # Another request took what was here, so lease all that this one needs.
            result = await self._ask(purses, cost, alone=True)
        raise Unavailable("the budgets change at the moment", retry_after=1)

    async def _ask(
        self, purses: Purses, cost: Cost, *, alone: bool
    ) -> Reservation | tuple[Short, ...] | None:
        needs = [(purse, purse.need(cost)) for purse in purses.hard]
        lacking = [
            (purse, need - min(purse.room, 0) if alone else need - purse.room, need)
            for purse, need in needs
            if alone or purse.room < need
        ]
        number, loop = next(self._ids), asyncio.get_running_loop()
        answer: asyncio.Future[Reservation | tuple[Short, ...] | None] = loop.create_future()
        self._asking[number] = _Asking(purses, cost, answer)
        timer = loop.call_later(ASK_S, _time_out, answer)
        self._send(
            BudgetAsk(
                id=number,
                lacking=tuple([Share(one.budget, one.subject, lack) for one, lack, _ in lacking]),
                needs=tuple([need for _, _, need in lacking]),
            )
        )
        try:
            return await answer
        except asyncio.CancelledError:
            if answer.done() and not answer.cancelled() and answer.exception() is None:
                hold = answer.result()
                if isinstance(hold, Reservation):
                    hold.settle(None)
            raise
        finally:
            timer.cancel()
            del self._asking[number]

    def on_message(self, message: ToWorker) -> None:
        match message:
            case BudgetGrant():
                self._granted(message)
            case BudgetDenial():
                asking = self._asking.get(message.id)
                if asking is not None and not asking.answer.done():
                    asking.answer.set_result(message.short)
            case BudgetOutage():
                asking = self._asking.get(message.id)
                if asking is not None and not asking.answer.done():
                    why = f"budgets cannot be checked: {message.why}"
                    asking.answer.set_exception(Unavailable(why, retry_after=1))
            case BudgetRecall():
                self._flush()
                places = frozenset(message.accounts)
                busy = self._budgets.busy
                self._report(
                    message.id, [one for one in busy if (one.budget, one.subject) in places]
                )

    async def report(self) -> None:
        """Report what was spent every REPORT_S until cancelled, and give back idle leases."""
        while True:
            await asyncio.sleep(REPORT_S)
            self._report(0, tuple(self._budgets.busy))
            self._budgets.busy.difference_update(
                [one for one in self._budgets.busy if one.rests and one.idle >= IDLE_REPORTS]
            )

    def report_now(self) -> None:
        """Report what was spent, and keep the leases."""
        self._report(0, tuple(self._budgets.busy), idle=0)

    def _report(self, recall: int, purses: Iterable[Purse], idle: int = 1) -> None:
        """recall: the id of the BudgetRecall, or 0. idle: how much older an unused lease is now."""
        uses = tuple([use for one in purses if (use := _use(one, recall, idle)) is not None])
        recorded = self._budgets.take_recorded()
        if recall or uses or recorded:
            writer = self._budgets.writer
            self._send(BudgetReport(recall=recall, writer=writer, uses=uses, recorded=recorded))

    def _granted(self, grant: BudgetGrant) -> None:
        """Add to the leases, and reserve the request before another one can take its part."""
        asking = self._asking.get(grant.id)
        own = () if asking is None else asking.purses.hard
        for one in grant.granted:
            # The request's own purse: it may have been dropped while the request waited.
            place = one.budget, one.subject
            known = [purse for purse in own if (purse.budget, purse.subject) == place]
            purse = known[0] if known else self._budgets.purse(*place)
            if purse is not None:
                purse.room += one.amount
                purse.idle = 0
                self._budgets.busy.add(purse)
        if asking is not None and not asking.answer.done():
            asking.answer.set_result(asking.purses.reserve(asking.cost))


def _time_out(answer: "asyncio.Future[Reservation | tuple[Short, ...] | None]") -> None:
    if not answer.done():
        answer.set_exception(Unavailable("the leader process does not answer", retry_after=1))


def _use(purse: Purse, recall: int, idle: int) -> PurseUse | None:
    """What happened to a purse since the last report; `None` if nothing."""
    spent, returned, overdrawn = purse.spent, 0, 0
    purse.spent = 0
    purse.idle = 0 if spent else purse.idle + idle
    if purse.room < 0:
        overdrawn, purse.room = -purse.room, 0
    elif purse.room and (recall or purse.idle >= IDLE_REPORTS):
        returned, purse.room = purse.room, 0
    if not (spent or returned or overdrawn):
        return None
    return PurseUse(purse.budget, purse.subject, spent, returned, overdrawn)
