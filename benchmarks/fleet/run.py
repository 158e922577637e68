"""Requests to a fleet of gateways: a steady time, an outage of half a pool, and its return."""

import asyncio
import random
from collections import Counter, deque
from collections.abc import Callable
from typing import Final

from msgspec import Struct

from benchmarks.fleet.gateways import Gateway, config_of
from benchmarks.fleet.redis import Redis
from benchmarks.fleet.replicas import SLOTS, Job, Server
from benchmarks.fleet.virtual_time import VirtualLoop
from strowger_gateway.gateway.config.schema.failover import RetryRule
from strowger_gateway.gateway.governance.leases.pool import PART
from strowger_gateway.gateway.routing.planning.candidate import Candidate

POOL: Final = 64
"""The most replicas of one pool."""

MEAN_S: Final = 5.0
"""The mean time of an answer; half of them are short, and some take a minute."""

REFUSED_S: Final = 0.005
"""After which a connection to a replica that is gone fails."""

HEDGE_S: Final = 2.0
"""Without content for so long, a second replica is asked."""

BUSY: Final = 0.2
"""The part of all requests that one key sends: twice what its limit allows."""

MINUTE_S: Final = 60.0


class Size(Struct, frozen=True, kw_only=True):
    """load: of all slots, 0 to 1. seconds: of virtual time. keys: of clients."""

    gateways: int = 10
    replicas: int = 100
    load: float = 0.7
    seconds: float = 90.0
    keys: int = 20
    seed: int = 1


class Figures(Struct, kw_only=True):
    """What a run shows.

    spread: the largest difference of a replica's requests from the mean, as a part of the mean,
    before the outage. chance: one standard deviation of that for a random choice.
    failed: requests without an answer. broken: answers cut by the outage.
    gone: replicas in the outage. attempts_down: attempts at them in that time. open_s: until every
    gateway had all of their circuits open. most_before, most_after: requests at one of them,
    before the outage and after it; most_others: at one of the others after it.
    probes: in all; together: at one replica at a time. back_s: until they had 90 % of their share.
    admitted, limit: of the busiest key within a minute. lease: of one worker.
    commands, scripts, notices: of Redis, per second. polls: of one replica, per second.
    """

    requests: int = 0
    refused: int = 0
    failed: int = 0
    broken: int = 0
    hedges: int = 0
    spread: float = 0.0
    chance: float = 0.0
    attempts_down: int = 0
    open_s: float = float("nan")
    most_before: int = 0
    most_after: int = 0
    most_others: int = 0
    probes: int = 0
    together: int = 0
    gone: int = 0
    back_s: float = float("nan")
    admitted: int = 0
    limit: int = 0
    lease: int = 0
    commands: float = 0.0
    scripts: float = 0.0
    notices: float = 0.0
    polls: float = 0.0


def run(size: Size) -> Figures:
    """Simulate; the same size and seed give the same figures."""
    random.seed(size.seed)
    loop = VirtualLoop()
    try:
        return loop.run_until_complete(_run(size, loop))
    finally:
        loop.close()


async def _run(size: Size, loop: VirtualLoop) -> Figures:
    return await _Fleet(size, loop).run()


class _Fleet:
    def __init__(self, size: Size, loop: VirtualLoop) -> None:
        self._size = size
        self._loop = loop
        self.figures = Figures()
        self._redis = Redis(loop.time)
        count = max(1, -(-size.replicas // POOL))
        self._servers = [
            Server(f"10.0.{n // 250}.{n % 250}:80", loop) for n in range(size.replicas)
        ]
        pools = {f"pool-{n}": self._servers[n::count] for n in range(count)}
        self._rate = size.load * SLOTS * size.replicas / MEAN_S
        self._limit = max(PART, round(self._rate * MINUTE_S * BUSY / 2))
        config = config_of(count, self._limit, size.keys)
        self._gateways = [
            Gateway(number, loop, self._redis, config, pools) for number in range(size.gateways)
        ]
        self._affected = pools["pool-0"][::2]
        self._probing: Counter[str] = Counter()
        self._admitted: dict[str, deque[float]] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    async def run(self) -> Figures:
        size, figures = self._size, self.figures
        works = [asyncio.create_task(one) for g in self._gateways for one in g.works()]
        arriving = asyncio.create_task(self._arrive())
        third = size.seconds / 3
        await asyncio.sleep(third / 4)
        before, commands = self._received(), self._counts()
        await asyncio.sleep(third * 3 / 4)
        self._spread(before)
        passed = zip(self._counts(), commands, strict=True)
        rates = [(after - start) / (third * 3 / 4) for after, start in passed]
        figures.commands, figures.scripts, figures.notices = rates
        await self._outage(third)
        arriving.cancel()
        for task in (*works, *self._tasks):
            task.cancel()
        await asyncio.gather(arriving, *works, *self._tasks, return_exceptions=True)
        figures.limit, figures.lease = self._limit, self._limit // PART
        figures.polls = float(size.gateways)
        return figures

    async def _outage(self, third: float) -> None:
        figures, affected = self.figures, self._affected
        figures.gone = len(affected)
        figures.most_before = max(one.most for one in affected)
        for server in affected:
            server.stop()
        began, known = self._loop.time(), False
        while self._loop.time() < began + third:
            await asyncio.sleep(0.1)
            if not known and all(self._all_open(server) for server in affected):
                known, figures.open_s = True, self._loop.time() - began
        for server in affected:
            server.up = True
        for server in self._servers:
            server.most = server.requests
        back = self._loop.time()
        others = [one for one in self._servers if one not in affected]
        while self._loop.time() < back + third:
            start = {one: one.received for one in self._servers}
            await asyncio.sleep(1.0)
            ours = sum(one.received - start[one] for one in affected) / len(affected)
            theirs = sum(one.received - start[one] for one in others) / len(others)
            if figures.back_s != figures.back_s and ours >= 0.9 * theirs:
                figures.back_s = self._loop.time() - back
        figures.most_after = max(one.most for one in affected)
        figures.most_others = max(one.most for one in others)

    def _all_open(self, server: Server) -> bool:
        return all(
            one.breaker.open_until is not None
            for gateway in self._gateways
            for one in gateway.found
            if one.backend.replica is not None and one.backend.replica.address == server.address
        )

    def _received(self) -> list[int]:
        return [one.received for one in self._servers]

    def _counts(self) -> list[int]:
        redis = self._redis
        return [redis.commands, redis.scripts, redis.read]

    def _spread(self, before: list[int]) -> None:
        counts = [after - start for after, start in zip(self._received(), before, strict=True)]
        mean = sum(counts) / len(counts)
        self.figures.spread = max(abs(one - mean) for one in counts) / mean
        self.figures.chance = mean**-0.5

    async def _arrive(self) -> None:
        size = self._size
        while True:
            await asyncio.sleep(random.expovariate(self._rate))
            gateway = random.choice(self._gateways)
            task = asyncio.create_task(self._request(gateway, self._key(size.keys)))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    def _key(self, keys: int) -> str:
        return "busy" if random.random() < BUSY else f"key-{random.randrange(keys)}"

    async def _request(self, gateway: Gateway, key: str) -> None:
        figures = self.figures
        figures.requests += 1
        if not await gateway.admit(key):
            figures.refused += 1
            return
        self._count(key)
        await _Request(self, gateway, self._loop).run(_duration_s())

    def _count(self, key: str) -> None:
        """Note an admitted request, and how many there were within the last minute."""
        now, times = self._loop.time(), self._admitted.setdefault(key, deque())
        times.append(now)
        while times[0] <= now - MINUTE_S:
            times.popleft()
        self.figures.admitted = max(self.figures.admitted, len(times))

    def probe(self, address: str, change: int) -> None:
        self._probing[address] += change
        if change > 0:
            self.figures.probes += 1
        self.figures.together = max(self.figures.together, self._probing[address])


class _Request:
    """One request: attempts one after the other, and a hedge if there is no content in time."""

    def __init__(self, fleet: _Fleet, gateway: Gateway, loop: VirtualLoop) -> None:
        self._fleet = fleet
        self._gateway = gateway
        self._loop = loop
        self._ended = loop.create_future()
        self._rule = RetryRule()
        self._left = self._rule.attempts
        self._open = 0
        self._committed: Job | None = None
        self._jobs: dict[Job, Callable[[], None]] = {}

    async def run(self, duration_s: float) -> None:
        self._queue = deque(self._gateway.order()[: 2 * self._left])
        self._gateway.hedging.firsts.add(self._loop.time())
        self._next(duration_s)
        timer = self._loop.call_later(HEDGE_S, self._hedge, duration_s)
        await self._ended
        timer.cancel()

    def _next(self, duration_s: float) -> None:
        """Ask the next replica that is available; fail without one."""
        now = self._loop.time()
        while self._queue and not self._queue[0].breaker.is_available(now):
            self._queue.popleft()
        if not self._queue or self._left <= 0:
            if not self._open:
                self._fleet.figures.failed += 1
                self._end()
            return
        self._attempt(self._queue.popleft(), duration_s)

    def _attempt(self, candidate: Candidate, duration_s: float) -> None:
        now, replica = self._loop.time(), candidate.backend.replica
        assert replica is not None
        server = self._gateway.servers[replica.address]
        self._left -= 1
        self._open += 1
        candidate.backend.budget.firsts.add(now)
        candidate.backend.load.in_flight += 1
        probe = candidate.breaker.begin(now)
        if probe:
            self._fleet.probe(server.address, 1)
        state = _State(probe)

        def closed() -> None:
            self._open -= 1
            candidate.backend.load.in_flight -= 1
            if state.probe:
                state.probe = False
                self._fleet.probe(server.address, -1)

        def started() -> None:
            self._committed = job
            if state.probe:
                state.probe = False
                self._fleet.probe(server.address, -1)
                candidate.breaker.on_probe_content(self._loop.time())
            for other, lose in tuple(self._jobs.items()):
                if other is not job:
                    lose()

        def ended() -> None:
            candidate.breaker.succeed(self._loop.time(), probe=False)
            closed()
            self._end()

        def failed() -> None:
            was_probe = state.probe
            closed()
            self._jobs.pop(job, None)
            candidate.breaker.fail(self._loop.time(), probe=was_probe, draw=random.random())
            if self._committed is job:
                self._fleet.figures.broken += 1
                self._end()
            elif self._committed is None:
                self._next(duration_s)

        def lose() -> None:
            job.gone = True
            was_probe = state.probe
            closed()
            self._jobs.pop(job, None)
            candidate.breaker.ignore_outcome(probe=was_probe)

        job = Job(duration_s, started, ended, failed)
        self._jobs[job] = lose
        if server.up:
            server.accept(job)
        else:
            self._fleet.figures.attempts_down += 1
            self._loop.call_later(REFUSED_S, failed)

    def _hedge(self, duration_s: float) -> None:
        now = self._loop.time()
        while self._queue and not self._queue[0].breaker.is_available(now):
            self._queue.popleft()
        wanted = self._committed is None and self._queue and self._left > 0
        if wanted and self._gateway.hedging.take(now):
            self._fleet.figures.hedges += 1
            self._attempt(self._queue.popleft(), duration_s)

    def _end(self) -> None:
        if not self._ended.done():
            self._ended.set_result(None)


class _State:
    """probe: the attempt probes a circuit that is not closed."""

    def __init__(self, probe: bool) -> None:
        self.probe = probe


def _duration_s() -> float:
    """MEAN_S on average."""
    if random.random() < 0.5:
        return random.expovariate(1.0 / MEAN_S)
    return MEAN_S * random.lognormvariate(-0.5, 1.0)
