"""The least that leases need: amounts that are used up, with a leader and workers that share them.

Messages take a random time. Some arrive twice.
"""

import asyncio
import random
from collections.abc import Callable, Iterator, Sequence
from typing import Final

from msgspec import Struct

from strowger_gateway.gateway.governance.leases.leader import LeaseLeader, Waiting
from strowger_gateway.gateway.governance.leases.messages import (
    LeaseNeed,
    LeaseShare,
    LeaseUse,
    Place,
    ToLeader,
    ToWorker,
)
from strowger_gateway.gateway.governance.leases.pool import Loan
from strowger_gateway.gateway.governance.leases.worker import IDLE_REPORTS, LeaseWorker

LATEST_S: Final = 0.003
"""How long a message takes at most."""

HANGS_S: Final = 0.4
"""How long a process does not react now and then: longer than the leader waits for a recall."""

SETTLED_S: Final = HANGS_S + 0.1
"""After so long every message has arrived, also those that arrive again."""


class Stock(Struct, eq=False):
    """An amount that is used up. used: what counts. lent: what workers hold."""

    limit: int
    used: int = 0
    lent: int = 0
    loans: dict[int, Loan] = {}

    @property
    def room(self) -> int:
        return self.limit - self.used - self.lent

    def lend(self, amount: int) -> None:
        self.lent += amount

    def give_back(self, amount: int) -> None:
        self.lent -= amount

    def book(self, expires: int, amount: int, at: int) -> None:
        self.lent -= amount
        self.used += amount

    def check(self, overrun: int) -> None:
        """Raise AssertionError if more is lent than there is. overrun: used beyond reservations."""
        held = [loan.amount for loan in self.loans.values()]
        assert min(held, default=0) >= 0, "a worker holds less than nothing"
        assert sum(held) == self.lent, "something is lent to no worker"
        assert self.used + self.lent <= self.limit + overrun, "more is lent than there is"


class Lease(Struct, eq=False):
    """What a worker holds of a stock."""

    place: Place
    busy: set["Lease"]
    room: int = 0
    spent: int = 0
    idle: int = 0

    def add(self, share: LeaseShare) -> None:
        self.room += share.amount

    def report(self, *, recalled: bool, age: int) -> LeaseUse | None:
        spent, returned, overdrawn = self.spent, 0, max(0, -self.room)
        self.spent, self.room = 0, self.room + overdrawn
        self.idle = 0 if spent else self.idle + age
        if recalled or self.idle >= IDLE_REPORTS:
            returned, self.room = self.room, 0
        if not (spent or returned or overdrawn):
            return None
        return LeaseUse(self.place, ((0, spent),) if spent else (), returned, overdrawn)

    def is_idle(self, at: int) -> bool:
        return not (self.room or self.spent) and self.idle >= IDLE_REPORTS


class Reserved(Struct, frozen=True, eq=False):
    """What one request has reserved."""

    leases: tuple[Lease, ...]
    amounts: tuple[int, ...]

    def settle(self, used: Sequence[int]) -> None:
        for lease, amount, spent in zip(self.leases, self.amounts, used, strict=True):
            lease.room += amount - spent
            lease.spent += spent
            lease.busy.add(lease)


class Demand(Struct, frozen=True, eq=False):
    """A request that needs an amount of each of its leases."""

    own: tuple[Lease, ...]
    amounts: tuple[int, ...]

    def needs(self, *, alone: bool) -> tuple[LeaseNeed, ...]:
        rooms = [min(one.room, 0) if alone else one.room for one in self.own]
        return tuple(
            [
                LeaseNeed(one.place, max(0, amount - room), amount)
                for one, amount, room in zip(self.own, self.amounts, rooms, strict=True)
            ]
        )

    def reserve(self) -> Reserved | None:
        pairs = list(zip(self.own, self.amounts, strict=True))
        if any(lease.room < amount for lease, amount in pairs):
            return None
        for lease, amount in pairs:
            lease.room -= amount
        return Reserved(self.own, self.amounts)

    def release(self, hold: Reserved) -> None:
        hold.settle([0] * len(hold.amounts))


class Rules:
    """The leases of one worker, by place."""

    def __init__(self) -> None:
        self.busy = set[Lease]()
        self._leases: dict[Place, Lease] = {}

    def leased(self, place: Place) -> Lease:
        return self._leases.setdefault(place, Lease(place, self.busy))

    def begin_again(self) -> None:
        """Apply a configuration that replaces every rule."""
        self._leases.clear()


class Leader(LeaseLeader[Stock, str]):
    """Lends from stocks. What a worker that died held counts as used."""

    def __init__(self, limits: dict[Place, int]) -> None:
        super().__init__(lambda: 0)
        self.stocks = {place: Stock(limit) for place, limit in limits.items()}

    def on_message(self, worker: int, message: ToLeader) -> None:
        if self.is_new(worker, message):
            self.receive(worker, message)

    def refresh(self) -> None:
        pass

    def pool(self, place: Place) -> Stock | None:
        return self.stocks.get(place)

    def free(self, pool: Stock) -> int:
        return pool.room

    def judge(self, waiting: Waiting[str]) -> None:
        wanted = [(self.stocks[need.place], need) for need in waiting.ask.needs]
        lacking = [(stock, need) for stock, need in wanted if stock.room < need.amount]
        if not lacking:
            self.grant(waiting, wanted)
            return
        holders = [
            worker for stock, _ in lacking for worker, loan in stock.loans.items() if loan.amount
        ]
        self.refuse(waiting, f"no room at {lacking[0][1].place[0]}", holders)

    def forget(self, worker: int) -> None:
        for stock in self.stocks.values():
            loan = stock.loans.pop(worker, None)
            if loan is not None:
                stock.book(0, loan.amount, 0)


class Worker:
    """One worker. after_answer: called once, at the moment when the next message has arrived."""

    def __init__(self, number: int, office: "Office") -> None:
        self.number = number
        self.alive = True
        self.after_answer: Callable[[], object] | None = None
        self.rules = Rules()
        self._office = office
        self._due = {"leader": 0.0, "worker": 0.0}
        self.leases: LeaseWorker[Lease, Reserved, str] = LeaseWorker(
            "stocks", self.rules, self._to_leader, ask_s=4.0, clock=office.next_start
        )
        self._send = self._to_worker
        office.leader.join(number, self._send)
        self._reporting = asyncio.create_task(self.leases.report())

    async def request(self, places: Sequence[Place], amounts: Sequence[int]) -> Reserved | str:
        own = [self.rules.leased(place) for place in places]
        demand = Demand(tuple(own), tuple(amounts))
        return demand.reserve() or await self.leases.obtain(demand)

    def stop(self) -> None:
        self.alive = False
        self._reporting.cancel()

    def _to_leader(self, message: ToLeader) -> None:
        for delay in self._office.deliveries("leader", self._due):
            self._later(delay, lambda: self._office.leader.on_message(self.number, message))

    def _to_worker(self, message: ToWorker[str]) -> None:
        for delay in self._office.deliveries("worker", self._due):
            self._later(delay, lambda: self._receive(message))

    def _receive(self, message: ToWorker[str]) -> None:
        self.leases.on_message(message)
        after, self.after_answer = self.after_answer, None
        if after is not None:
            after()

    def _later(self, at: float, deliver: Callable[[], None]) -> None:
        """Deliver a message, unless the worker has exited: that closes its channel."""

        def unless_closed() -> None:
            if self.alive:
                deliver()
                self._office.check()

        asyncio.get_running_loop().call_at(at, unless_closed)


class Office:
    """A leader and its workers.

    overrun: what requests used beyond their reservations, by place. hangs: whether processes do.
    """

    def __init__(self, draws: random.Random, workers: int, limits: dict[Place, int]) -> None:
        self.draws = draws
        self.leader = Leader(limits)
        self.overrun = dict.fromkeys(limits, 0)
        self.hangs = True
        self._starts = 0
        self.workers = [Worker(number, self) for number in range(workers)]

    def check(self) -> None:
        for place, stock in self.leader.stocks.items():
            stock.check(self.overrun[place])

    def kill(self, number: int) -> None:
        """End a worker in whatever state it is, and start another one in its place."""
        self.workers[number].stop()
        self.leader.leave(number)
        self.check()
        self.workers[number] = Worker(number, self)

    def close(self) -> None:
        for worker in self.workers:
            worker.stop()

    def next_start(self) -> int:
        """A clock for the numbers of messages: each process begins later."""
        self._starts += 1
        return self._starts * 1_000_000

    def deliveries(self, to: str, due: dict[str, float]) -> Iterator[float]:
        """When a message arrives: in order with others of its channel, and perhaps again."""
        now = asyncio.get_running_loop().time()
        now += HANGS_S if self.hangs and self.draws.random() < 0.03 else 0.0
        due[to] = max(due[to], now + self.draws.uniform(0, LATEST_S)) + 1e-9
        yield due[to]
        if self.draws.random() < 0.1:
            yield due[to] + self.draws.uniform(0, 20 * LATEST_S)
