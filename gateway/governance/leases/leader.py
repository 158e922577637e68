"""The leader's side of leases: lend to workers, and recall before a request is refused."""

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from typing import Final, Generic, TypeVar

from msgspec import Struct

from strowger_gateway.gateway.governance.leases.messages import (
    LeaseAsk,
    LeaseDenial,
    LeaseGrant,
    LeaseNeed,
    LeaseOutage,
    LeaseRecall,
    LeaseReport,
    LeaseShare,
    LeaseUse,
    Place,
    RefusalT,
    ToLeader,
    ToWorker,
)
from strowger_gateway.gateway.governance.leases.pool import PART, LeasePool, Loan, settled

RECALL_S: Final = 0.25
"""How long to wait for what other workers give back; a worker that hangs gives nothing."""

MOST_RECALLS: Final = 3
"""Recalls for one request: more than one, if other requests got leases in between."""

_MOST_NUMBERS: Final = 1024
"""Numbers of messages that are remembered per worker: how late one may arrive."""

PoolT = TypeVar("PoolT", bound=LeasePool)


class Waiting(Struct, Generic[RefusalT], eq=False):
    """A request that waits for an answer.

    send: to its worker. recalled: workers that were asked to give back what they hold, and got
    nothing since. recalls: how often that was. tries: decisions that were put off so far.
    """

    worker: int
    send: Callable[[ToWorker[RefusalT]], None]
    ask: LeaseAsk
    recalled: set[int] = set()
    recalls: int = 0
    tries: int = 0


class _Recalling(Struct, Generic[RefusalT], eq=False):
    """Requests that wait until other workers have given back what they hold."""

    places: frozenset[Place]
    missing: set[int]
    waiting: list[Waiting[RefusalT]]
    timer: asyncio.TimerHandle


class _Arrivals:
    """The messages of one worker that have arrived, by their numbers."""

    def __init__(self) -> None:
        self._numbers: dict[int, None] = {}
        self._forgotten = -1

    def add(self, number: int) -> bool:
        """Return whether it arrives for the first time."""
        if number <= self._forgotten or number in self._numbers:
            return False
        self._numbers[number] = None
        if len(self._numbers) > _MOST_NUMBERS:
            first = next(iter(self._numbers))
            del self._numbers[first]
            self._forgotten = max(self._forgotten, first)
        return True


class LeaseLeader(ABC, Generic[PoolT, RefusalT]):
    """The pools of all workers. A subclass knows what counts, and decides."""

    def __init__(self, clock: Callable[[], int]) -> None:
        """clock: nanoseconds."""
        self._clock = clock
        self._workers: dict[int, Callable[[ToWorker[RefusalT]], None]] = {}
        self._arrivals: dict[int, _Arrivals] = {}
        self._recalls: dict[int, _Recalling[RefusalT]] = {}
        self._last_recall = 0

    @abstractmethod
    def refresh(self) -> None:
        """Apply the current configuration."""

    @abstractmethod
    def pool(self, place: Place) -> PoolT | None:
        """The pool of a place; `None` if the current configuration does not have it."""

    @abstractmethod
    def free(self, pool: PoolT) -> int:
        """What may be lent now."""

    @abstractmethod
    def judge(self, waiting: Waiting[RefusalT]) -> None:
        """Answer a request with `grant`, `refuse` or `fail`, or call `decide` later."""

    @abstractmethod
    def forget(self, worker: int) -> None:
        """A worker has exited: decide what becomes of its loans."""

    def join(self, worker: int, send: Callable[[ToWorker[RefusalT]], None]) -> None:
        """Lend to a worker from now on."""
        self._workers[worker] = send
        self._arrivals[worker] = _Arrivals()

    def leave(self, worker: int) -> None:
        """A worker has exited."""
        self._workers.pop(worker, None)
        self._arrivals.pop(worker, None)
        self.forget(worker)
        for number in tuple(self._recalls):
            self._gave_back(number, worker)

    def is_new(self, worker: int, message: ToLeader) -> bool:
        """Whether it arrives for the first time, and the worker runs."""
        arrivals = self._arrivals.get(worker)
        return arrivals is not None and arrivals.add(message.id)

    def receive(self, worker: int, message: ToLeader) -> None:
        """Take a message that is new."""
        self.refresh()
        match message:
            case LeaseAsk():
                self.decide(Waiting(worker, self._workers[worker], message))
            case LeaseReport():
                self.book(worker, message)
                if message.recall:
                    self._gave_back(message.recall, worker)

    def decide(self, waiting: Waiting[RefusalT]) -> None:
        """Answer a request, unless its worker has exited: another one may have its number."""
        if self._is_alive(waiting):
            self.judge(waiting)

    def book(self, worker: int, report: LeaseReport) -> None:
        """Count the uses of a worker, and take back what it returns."""
        at = self._clock()
        for use in report.uses:
            pool = self.pool(use.place)
            if pool is not None:
                self.settle(worker, pool, use, at)

    def settle(self, worker: int, pool: PoolT, use: LeaseUse, at: int) -> None:
        """Book one use."""
        loan = pool.loans.setdefault(worker, Loan())
        loan.amount = settled(pool, loan.amount, use, at)

    def lend(self, worker: int, pool: PoolT, amount: int) -> None:
        """Lend so much to a worker."""
        pool.lend(amount)
        pool.loans.setdefault(worker, Loan()).amount += amount

    def grant(self, waiting: Waiting[RefusalT], wanted: Sequence[tuple[PoolT, LeaseNeed]]) -> None:
        """Lend what is lacking, and some more while there is much.

        wanted: pools with enough room, each with what is lacking.
        """
        worker, amounts = waiting.worker, list[int]()
        for pool, need in wanted:
            amounts.append(need.amount and need.amount + self._advance(waiting, pool, need))
            self.lend(worker, pool, amounts[-1])
        for recall in self._recalls.values():
            for other in recall.waiting:
                other.recalled.discard(worker)
        shares = [
            LeaseShare(need.place, amount, self.free(pool))
            for (pool, need), amount in zip(wanted, amounts, strict=True)
        ]
        waiting.send(LeaseGrant(id=waiting.ask.id, shares=tuple(shares)))

    def refuse(self, waiting: Waiting[RefusalT], refusal: RefusalT, holders: Iterable[int]) -> None:
        """Refuse a request, or decide again once other workers have given back what they hold.

        holders: workers that may have room.
        """
        others = self._workers.keys() & set(holders)
        if not waiting.ask.alone:
            others -= {waiting.worker}
        # What they report may show that another pool lacks room, of which others hold a part.
        others -= waiting.recalled
        if others and waiting.recalls < MOST_RECALLS:
            waiting.recalled |= others
            waiting.recalls += 1
            self._recall(waiting, others)
        else:
            waiting.send(LeaseDenial(id=waiting.ask.id, refusal=refusal))

    def fail(self, waiting: Waiting[RefusalT], why: str) -> None:
        """Answer that what counts cannot be known. why: as text for the client."""
        if self._is_alive(waiting):
            waiting.send(LeaseOutage(id=waiting.ask.id, why=why))

    def _is_alive(self, waiting: Waiting[RefusalT]) -> bool:
        return self._workers.get(waiting.worker) is waiting.send

    def _advance(self, waiting: Waiting[RefusalT], pool: PoolT, need: LeaseNeed) -> int:
        """What to lend beyond the need. Nothing, while others wait for what is given back."""
        scarce = any(need.place in recall.places for recall in self._recalls.values())
        if scarce or waiting.recalls:
            return 0
        spare = (self.free(pool) - need.amount) // (4 * len(self._workers))
        return max(0, min(spare, pool.limit // PART))

    def _recall(self, waiting: Waiting[RefusalT], others: set[int]) -> None:
        places = frozenset([need.place for need in waiting.ask.needs])
        for running in self._recalls.values():
            if running.places == places and others <= running.missing:
                running.waiting.append(waiting)
                return
        self._last_recall += 1
        number = self._last_recall
        timer = asyncio.get_running_loop().call_later(RECALL_S, self._end_recall, number)
        self._recalls[number] = _Recalling(places, set(others), [waiting], timer)
        for other in others:
            self._workers[other](LeaseRecall(id=number, places=tuple(places)))

    def _gave_back(self, number: int, worker: int) -> None:
        recall = self._recalls.get(number)
        if recall is not None:
            recall.missing.discard(worker)
            if not recall.missing:
                self._end_recall(number)

    def _end_recall(self, number: int) -> None:
        """Decide what waited for it."""
        recall = self._recalls.pop(number)
        recall.timer.cancel()
        self.refresh()
        for waiting in recall.waiting:
            self.decide(waiting)
