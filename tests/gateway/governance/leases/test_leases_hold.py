"""Leases over random histories: never more than there is, nothing lost, settled exactly.

STROWGER_LEASE_HISTORIES: how many the nightly run tries.
"""

import asyncio
import os
import random
from collections.abc import Awaitable, Callable

import pytest
from msgspec import Struct

from strowger_gateway.gateway.governance.leases.messages import Place
from strowger_gateway.gateway.governance.leases.worker import REPORT_S
from tests.gateway.backends.upstream.skipping_loop import SkippingLoop
from tests.gateway.governance.leases.one_rule import SETTLED_S, Office, Reserved, Stock, Worker

HISTORIES = 60
NIGHTLY = int(os.environ.get("STROWGER_LEASE_HISTORIES", "5000"))
CLIENTS = 6
STEPS = 8
QUIET_S = 30 * REPORT_S
"""After so long without requests, every lease has returned."""

PLACES: tuple[Place, ...] = (("own", "a", "n"), ("all", "", "n"), ("all", "", "m"))


class Kept(Struct, eq=False):
    """What a request has reserved of places, at a worker."""

    worker: Worker
    places: tuple[Place, ...]
    reserved: Reserved


class History:
    """Clients of several workers. used: what requests of living workers used, by place."""

    def __init__(self, seed: int, *, deaths: bool = False, reloads: bool = False) -> None:
        draws = self.draws = random.Random(seed)
        self.deaths, self.reloads = deaths, reloads
        limits = {place: draws.choice((5, 40, 200, 1000)) for place in PLACES}
        self.office = Office(draws, draws.randint(1, 4), limits)
        self.running: list[Kept] = []
        self.used = dict.fromkeys(PLACES, 0)
        self.killed = self.reloaded = False

    def check(self) -> None:
        """What requests used and have reserved is within each limit, since it began."""
        if self.reloaded:
            return
        for place, stock in self.office.leader.stocks.items():
            reserved = sum(
                amount
                for kept in self.running
                for one, amount in zip(kept.places, kept.reserved.amounts, strict=True)
                if one == place
            )
            most = stock.limit + self.office.overrun[place]
            assert self.used[place] + reserved <= most, "admitted without room"

    async def client(self) -> None:
        for _ in range(STEPS):
            await asyncio.sleep(self.draws.choice((0, 0, 0.001, 0.2, 1.5)))
            action = self.draws.random()
            if self.deaths and action < 0.1:
                self.kill()
            elif self.reloads and action < 0.05:
                await self.reload()
            elif action < 0.2:
                await self.impatient()
            else:
                await self.request()

    def drawn(self) -> tuple[Worker, tuple[Place, ...], list[int]]:
        places = tuple(self.draws.sample(PLACES, self.draws.randint(1, len(PLACES))))
        amounts = [self.draws.choice((0, 1, 3, 20)) for _ in places]
        return self.draws.choice(self.office.workers), places, amounts

    async def request(self) -> None:
        worker, places, amounts = self.drawn()
        asking = asyncio.ensure_future(worker.request(places, amounts))
        while not asking.done():
            await asyncio.wait({asking}, timeout=0.01)
            if not worker.alive:
                asking.cancel()
                return
        found = asking.result()
        if not isinstance(found, Reserved):
            return
        kept = Kept(worker, places, found)
        self.running.append(kept)
        self.check()
        await asyncio.sleep(self.draws.choice((0, 0.002, 0.3)))
        if kept.worker.alive:
            self.end(kept)

    async def impatient(self) -> None:
        """A client leaves, often at the moment of the answer."""
        worker, places, amounts = self.drawn()
        asking = asyncio.ensure_future(worker.request(places, amounts))
        if self.draws.random() < 0.7:
            worker.after_answer = asking.cancel
        await asyncio.wait({asking}, timeout=self.draws.uniform(0, 0.01))
        asking.cancel()
        await asyncio.wait({asking})
        if not asking.cancelled() and isinstance(found := asking.result(), Reserved):
            found.settle([0] * len(places))

    def end(self, kept: Kept) -> None:
        """Settle a request; some used more than they had reserved."""
        self.running.remove(kept)
        used: list[int] = []
        for place, amount in zip(kept.places, kept.reserved.amounts, strict=True):
            over = self.draws.choice((0, 0, 0, 2))
            used.append(amount + over if over else self.draws.randint(0, amount))
            self.used[place] += used[-1]
            self.office.overrun[place] += max(0, used[-1] - amount)
        kept.reserved.settle(used)
        self.check()

    def kill(self) -> None:
        """What the worker's requests have reserved may have been used."""
        self.killed = True
        worker = self.draws.choice(self.office.workers)
        self.office.kill(worker.number)
        for kept in [one for one in self.running if one.worker is worker]:
            self.running.remove(kept)
            for place, amount in zip(kept.places, kept.reserved.amounts, strict=True):
                self.used[place] += amount

    async def reload(self) -> None:
        """The leader begins again before its workers do."""
        self.reloaded = True
        self.office.leader.stocks = {
            place: Stock(self.draws.choice((5, 40, 1000))) for place in PLACES
        }
        for worker in self.draws.sample(self.office.workers, len(self.office.workers)):
            await asyncio.sleep(self.draws.choice((0, 0.002, 0.3)))
            worker.rules.begin_again()

    async def run(self) -> None:
        await asyncio.gather(*[self.client() for _ in range(CLIENTS)])
        self.office.hangs = False
        await asyncio.sleep(SETTLED_S)
        if not self.killed and not self.reloaded:
            for place, stock in self.office.leader.stocks.items():
                await self.share(place, stock.limit - self.used[place])
        await asyncio.sleep(QUIET_S)
        for place, stock in self.office.leader.stocks.items():
            assert stock.lent == 0, "something is lent for ever"
            if self.reloaded:
                continue
            if not self.killed:
                assert stock.used == self.used[place], "settled inexactly"
            # Only what a worker that died used beyond reservations may be missing.
            least = self.used[place] - self.office.overrun[place]
            assert stock.used >= least, "something used is not counted"
        for place, stock in self.office.leader.stocks.items():
            await self.use_up(place, stock.limit - stock.used)
        self.office.close()

    async def share(self, place: Place, left: int) -> None:
        """All workers get all that is left, although others hold parts of it in advance.

        Some at the same time: larger ones could take from each other what their workers hold.
        """
        units = min(max(left, 0), 20)
        found = await asyncio.gather(*[self.one(place, 1) for _ in range(units)])
        left -= units
        while left > 0:
            amount = self.draws.randint(1, left)
            found.append(await self.one(place, amount))
            left -= amount
        for one in found:
            one.settle([0])

    async def one(self, place: Place, amount: int) -> Reserved:
        found = await self.draws.choice(self.office.workers).request([place], [amount])
        assert isinstance(found, Reserved), f"refused {amount} although there is room"
        return found

    async def use_up(self, place: Place, left: int) -> None:
        """Any worker gets all that is left, and no worker gets more."""
        if left > 0:
            whole = await self.draws.choice(self.office.workers).request([place], [left])
            assert isinstance(whole, Reserved), "something is lost"
        for worker in self.office.workers:
            assert isinstance(await worker.request([place], [1]), str), "more than there is"


def play(run: Callable[[int], Awaitable[None]], histories: int) -> None:
    for seed in range(histories):
        with asyncio.Runner(loop_factory=SkippingLoop) as runner:
            problems: list[str] = []
            runner.get_loop().set_exception_handler(
                lambda _, context, to=problems: to.append(str(context.get("exception", context)))
            )
            try:
                runner.run(_finished(run(seed)))
                assert not problems, problems[0]
            except AssertionError as exc:
                raise AssertionError(f"history {seed}: {exc}") from exc


async def _finished(work: Awaitable[None]) -> None:
    await work


async def steady(seed: int) -> None:
    await History(seed).run()


async def with_deaths(seed: int) -> None:
    await History(seed, deaths=True).run()


async def with_reloads(seed: int) -> None:
    await History(seed, reloads=True).run()


every_kind = pytest.mark.parametrize("run", [steady, with_deaths, with_reloads])


@every_kind
def test_leases_never_exceed_what_there_is_and_everything_that_is_not_used_returns(
    run: Callable[[int], Awaitable[None]],
) -> None:
    """Whichever messages are late or arrive twice, whichever clients leave and workers die."""
    play(run, HISTORIES)


@pytest.mark.nightly
@every_kind
def test_leases_hold_over_many_more_histories(run: Callable[[int], Awaitable[None]]) -> None:
    play(run, NIGHTLY)
