"""Leases of several workers, with messages that take their time: together exactly the limit."""

import asyncio
import random
from collections.abc import Callable
from time import monotonic_ns

import pytest

from strowger_gateway.gateway.config.schema.limits import Limit, LimitWho
from strowger_gateway.gateway.governance.leases.messages import ToLeader, ToWorker
from strowger_gateway.gateway.governance.leases.worker import REPORT_S
from strowger_gateway.gateway.governance.limits.lease_leader import LimitLeaseLeader
from strowger_gateway.gateway.governance.limits.lease_worker import LimitLeaseWorker
from strowger_gateway.gateway.governance.limits.ledger import Hold, LimitRefusal
from strowger_gateway.gateway.governance.limits.limits import RequestLimits

pytestmark = pytest.mark.anyio

SEEDS = [*range(4), *(pytest.param(seed, marks=pytest.mark.nightly) for seed in range(4, 12))]


class LateMail:
    """Deliver messages in order, each after a random delay."""

    def __init__(self, draws: random.Random) -> None:
        self._draws = draws
        self._due = 0.0

    def __call__(self, deliver: Callable[[], None]) -> None:
        loop = asyncio.get_running_loop()
        self._due = max(self._due, loop.time() + self._draws.uniform(0, 0.002))
        loop.call_at(self._due, deliver)


class LeasingWorker:
    """One worker: its limits, and its connection to the leader."""

    def __init__(self, number: int, office: "Office") -> None:
        self.number = number
        self.alive = True
        self.limits = RequestLimits(office.limits)
        to_leader, to_worker = LateMail(office.draws), LateMail(office.draws)

        def send(message: ToLeader) -> None:
            if self.alive:
                to_leader(lambda: office.leader.on_message(number, message) if self.alive else None)

        def receive(message: ToWorker[LimitRefusal]) -> None:
            to_worker(lambda: self.leases.on_message(message) if self.alive else None)

        self.leases = LimitLeaseWorker(self.limits, send)
        office.leader.join(number, receive)
        self.reporting = asyncio.create_task(self.leases.report())

    async def request(self, tokens: int) -> Hold | LimitRefusal:
        accounts = self.limits.of(("web", "chat", "chat", "", "", "", ""))
        assert accounts is not None
        hold = accounts.reserve(tokens, monotonic_ns())
        return hold if hold is not None else await self.leases.ask(accounts, tokens)


class Office:
    """A leader and its workers."""

    def __init__(self, workers: int, seed: int, *limits: Limit) -> None:
        self.draws = random.Random(seed)
        self.limits = limits
        self.leader = LimitLeaseLeader(lambda: self.limits)
        self.workers = [LeasingWorker(number, self) for number in range(workers)]

    async def close(self) -> None:
        for worker in self.workers:
            worker.reporting.cancel()
        await asyncio.gather(*(one.reporting for one in self.workers), return_exceptions=True)

    def kill(self, number: int) -> None:
        self.workers[number].alive = False
        self.leader.leave(number)


def limit(**fields: object) -> Limit:
    return Limit(name="l", who=LimitWho(any=True), per="day", **fields)  # pyright: ignore[reportArgumentType]  fields of Limit


@pytest.mark.parametrize("seed", SEEDS)
async def test_several_workers_admit_exactly_the_limit(seed: int) -> None:
    """Not one more, and not one less: no worker refuses while another one holds a lease."""
    draws = random.Random(seed)
    allowed = draws.randint(1, 400)
    office = Office(draws.randint(2, 4), seed, limit(requests=allowed))

    async def client(worker: LeasingWorker) -> int:
        admitted = 0
        for _ in range(100):
            result = await worker.request(0)
            admitted += isinstance(result, Hold)
            if isinstance(result, Hold):
                result.settle(0, monotonic_ns())
            if draws.random() < 0.1:
                await asyncio.sleep(draws.uniform(0, 0.02))
        return admitted

    counts = await asyncio.gather(*(client(worker) for worker in office.workers for _ in range(3)))
    await office.close()

    assert sum(counts) == min(allowed, 300 * len(office.workers))


@pytest.mark.parametrize("seed", SEEDS)
async def test_a_limit_that_need_not_be_exact_is_exceeded_by_at_most_a_lease_per_worker(
    seed: int,
) -> None:
    """And none is refused below it, although most requests wait for no message."""
    draws = random.Random(seed)
    allowed, workers = draws.randint(64, 2000), draws.randint(2, 4)
    office = Office(workers, seed, limit(requests=allowed, exact=False))

    async def client(worker: LeasingWorker) -> int:
        admitted = 0
        for _ in range(300):
            result = await worker.request(0)
            admitted += isinstance(result, Hold)
            if draws.random() < 0.1:
                await asyncio.sleep(draws.uniform(0, 0.005))
        return admitted

    counts = await asyncio.gather(*(client(worker) for worker in office.workers for _ in range(3)))
    again = [await worker.request(0) for worker in office.workers]
    await office.close()

    admitted = sum(counts) + sum(isinstance(one, Hold) for one in again)
    requests = workers * (900 + 1)
    assert min(allowed, requests) <= admitted <= allowed + workers * (allowed // 64)


async def test_a_request_within_the_credit_waits_for_no_message() -> None:
    office = Office(2, 1, limit(requests=640, tokens=6400, exact=False))
    worker = office.workers[0]
    request = worker.request(100)
    try:
        request.send(None)
    except StopIteration as done:
        first = done.value
    else:
        first = None
    larger = await worker.request(101)
    await office.close()

    assert isinstance(first, Hold)
    assert isinstance(larger, Hold), "more than the credit is asked for, not refused"


async def test_one_exact_limit_makes_a_request_ask() -> None:
    loose = Limit(name="loose", who=LimitWho(any=True), requests=640, per="day", exact=False)
    office = Office(2, 1, loose, limit(requests=640))
    request = office.workers[0].request(0)
    waits = request.send(None)
    request.close()
    await office.close()

    assert waits is not None


@pytest.mark.parametrize("seed", SEEDS)
async def test_tokens_that_are_not_used_return_to_all_workers(seed: int) -> None:
    """Each request reserves up to 50 and uses less: in the end exactly the used ones count."""
    draws = random.Random(seed)
    office = Office(3, seed, limit(tokens=2000, concurrent=3))
    used = 0

    async def client(worker: LeasingWorker) -> None:
        nonlocal used
        for _ in range(40):
            tokens = draws.randint(1, 50)
            result = await worker.request(tokens)
            if isinstance(result, LimitRefusal):
                continue
            await asyncio.sleep(draws.uniform(0, 0.004))
            spent = draws.randint(0, tokens + (5 if draws.random() < 0.1 else 0))
            result.settle(spent, monotonic_ns())
            used += spent

    await asyncio.gather(*(client(worker) for worker in office.workers for _ in range(3)))
    await asyncio.sleep(3 * REPORT_S)  # what was used beyond a reservation is reported
    last = [await one.request(2000 - used) for one in office.workers]
    await office.close()

    assert used <= 2000 + 5 * 40
    if used < 2000:
        assert sum(isinstance(one, Hold) for one in last) == 1


@pytest.mark.parametrize("seed", SEEDS)
async def test_a_killed_workers_seats_return_and_its_lease_counts_as_used(seed: int) -> None:
    office = Office(3, seed, limit(requests=300, concurrent=6))
    first, second, third = office.workers
    held = [await first.request(0) for _ in range(4)]
    kept = [await second.request(0) for _ in range(2)]
    refused = await third.request(0)
    office.kill(0)
    after = [await third.request(0) for _ in range(4)]
    full = await third.request(0)
    for one in (*kept, *after):
        assert isinstance(one, Hold)
        one.settle(0, monotonic_ns())
    admitted = 10
    while isinstance(found := await third.request(0), Hold):
        found.settle(0, monotonic_ns())
        admitted += 1
    await office.close()

    assert all(isinstance(one, Hold) for one in held)
    assert isinstance(refused, LimitRefusal)
    assert refused.quantity == "concurrent"
    assert isinstance(full, LimitRefusal)
    assert 290 <= admitted <= 300
    assert isinstance(found, LimitRefusal)
    assert found.quantity == "requests"


async def test_idle_leases_return_to_the_leader() -> None:
    office = Office(2, 1, limit(requests=6400, tokens=64_000, concurrent=640))
    hold = await office.workers[0].request(10)
    assert isinstance(hold, Hold)
    hold.settle(10, monotonic_ns())
    account = office.workers[0].limits.accounts()[0]
    parts = [part for part in (account.requests, account.tokens, account.slots) if part]
    leased = [part.room for part in parts]
    async with asyncio.timeout(60):
        while any(part.room for part in parts):  # noqa: ASYNC110  time decides
            await asyncio.sleep(0.05)
    await office.close()

    assert len(leased) == 3
    assert min(leased) > 0


async def test_a_reload_changes_the_limit_of_all_workers() -> None:
    office = Office(2, 3, limit(requests=10))
    first = [await office.workers[turn % 2].request(0) for turn in range(12)]
    office.limits = (limit(requests=15),)
    for worker in office.workers:
        worker.limits.configure(office.limits)
    more = [await office.workers[turn % 2].request(0) for turn in range(12)]
    await office.close()

    assert sum(isinstance(one, Hold) for one in first) == 10
    assert sum(isinstance(one, Hold) for one in more) == 5


async def test_a_request_without_tokens_passes_after_an_answer_that_took_more_than_was_left() -> (
    None
):
    office = Office(2, 1, limit(tokens=100, requests=1000))
    (first, second) = office.workers
    long = await first.request(100)
    assert isinstance(long, Hold)
    long.settle(150, monotonic_ns())
    await asyncio.sleep(2 * REPORT_S)
    found = [await one.request(tokens) for one in (first, second) for tokens in (1, 0)]
    await office.close()

    kinds = [LimitRefusal, Hold] * 2
    assert [type(one) for one in found] == kinds


def per(period: str, **fields: object) -> Limit:
    return Limit(name="l", who=LimitWho(any=True), per=period, **fields)  # pyright: ignore[reportArgumentType]  fields of Limit


async def test_tokens_of_a_window_that_a_reload_ended_give_no_room_in_the_new_one() -> None:
    """The leader's window begins again while requests run, whose use was reported already."""
    office = Office(2, 1, per("minute", tokens=1000))
    first = office.workers[0]
    held = [await first.request(100) for _ in range(5)]
    await asyncio.sleep(3 * REPORT_S)
    office.limits = (per("hour", tokens=1000),)
    for worker in office.workers:
        worker.limits.configure(office.limits)
    for one in held:
        assert isinstance(one, Hold)
        one.settle(0, monotonic_ns())
    await asyncio.sleep(3 * REPORT_S)
    after = [await office.workers[1].request(100) for _ in range(12)]
    await office.close()

    assert sum(isinstance(one, Hold) for one in after) == 10


async def test_a_lease_from_a_leader_that_reloads_before_its_worker_comes_back() -> None:
    office = Office(2, 1, per("minute", tokens=1000))
    first = office.workers[0]
    office.limits = (per("hour", tokens=1000),)
    held = await first.request(100)
    assert isinstance(held, Hold)
    held.settle(0, monotonic_ns())
    first.limits.configure(office.limits)
    async with asyncio.timeout(60):
        while first.limits.busy:  # noqa: ASYNC110  time decides
            await asyncio.sleep(0.05)
    await asyncio.sleep(0.05)
    (account,) = office.leader.accounts()
    await office.close()

    assert account.tokens is not None
    assert account.tokens.room == 1000
