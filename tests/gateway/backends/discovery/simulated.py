"""Gateways and the replicas that they share, in virtual time; the choice is the gateway's own code.

A replica answers a bounded number of requests at a time, and further ones wait there. A gateway
knows its own requests, and those of others from gauges: it polls each replica about once per
second, and takes the reading soon after.
"""

import heapq
import random
from collections import Counter, deque
from collections.abc import Callable

from msgspec.structs import replace

from strowger_gateway.adapters.base import Supports
from strowger_gateway.gateway.backends.gauges.poller import EVERY_S, GATHER_S, JITTER
from strowger_gateway.gateway.routing.planning.candidate import Candidate
from strowger_gateway.gateway.routing.planning.policies import POLICIES, BackendStats
from strowger_gateway.gateway.routing.planning.replica_order import replica_order
from strowger_gateway.gateway.routing.resilience.recent_activity import Load
from strowger_gateway.gateway.routing.resilience.replica import Replica
from tests.gateway.routing.backends import backend_with

SLOTS = 16
"""Requests that a replica answers at the same time."""


class Server:
    """One replica as it is. slowness: factor of each duration. left: it is not in use any more."""

    def __init__(self, address: str, *, slowness: float = 1.0) -> None:
        self.address = address
        self.slowness = slowness
        self.left = False
        self.running = 0
        self.waiting: deque[tuple[float, Candidate]] = deque()

    @property
    def requests(self) -> int:
        return self.running + len(self.waiting)


class Gateway:
    """One process: its own load and its own estimates of that of others."""

    def __init__(self) -> None:
        self.found: list[Candidate] = []
        self._stats: list[BackendStats] = []

    def follow(
        self, servers: list[Server], *, joined_at: float = float("-inf"), slow_start_s: float = 0.0
    ) -> None:
        """These are the replicas from now on; those that are new have a share that grows."""
        known = {_address(one): one for one in self.found}
        self.found = [
            known.get(one.address) or _candidate(one.address, joined_at, slow_start_s)
            for one in servers
        ]
        self._stats = [BackendStats(name=one.name, weight=one.weight) for one in self.found]

    def choose(self, draw: float, now: float) -> Candidate:
        policy = POLICIES["weighted"]
        return self.found[replica_order(self.found, self._stats, policy, draw, b"", now)[0]]

    def take_reading(self, address: str, requests: int) -> None:
        for one in self.found:
            replica = one.backend.replica
            if replica is not None and replica.address == address:
                replica.note(requests, one.backend.load.busy)


class World:
    """Gateways before replicas, and requests that arrive at random times.

    load: of the capacity of the first replicas, 0 to 1.
    """

    def __init__(self, servers: list[Server], *, gateways: int, load: float, seed: int) -> None:
        self.now = 0.0
        self.servers = {one.address: one for one in servers}
        self.gateways = [Gateway() for _ in range(gateways)]
        self._counts: Counter[str] = Counter()
        self._random = random.Random(seed)
        self._rate = load * SLOTS * sum(1.0 / one.slowness for one in servers)
        self._events: list[tuple[float, int, Callable[[], None]]] = []
        self._order = 0
        for gateway in self.gateways:
            gateway.follow(servers)
        for server in servers:
            self._poll(server)
        self._at(0.0, self._arrive)

    def join(self, server: Server, *, slow_start_s: float) -> None:
        self.servers[server.address] = server
        for gateway in self.gateways:
            gateway.follow([*self.servers.values()], joined_at=self.now, slow_start_s=slow_start_s)
        self._poll(server)

    def leave(self, server: Server) -> None:
        server.left = True
        del self.servers[server.address]
        for gateway in self.gateways:
            gateway.follow([*self.servers.values()])

    def requests(self, count: int) -> Counter[str]:
        """Let so many requests arrive, and return how many each replica got."""
        self._counts.clear()
        while self._counts.total() < count:
            self._step()
        return Counter(self._counts)

    def seconds(self, passed: float) -> Counter[str]:
        """Let time pass, and return how many requests each replica got."""
        self._counts.clear()
        end = self.now + passed
        while self._events[0][0] < end:
            self._step()
        self.now = end
        return Counter(self._counts)

    def _step(self) -> None:
        self.now, _, happen = heapq.heappop(self._events)
        happen()

    def _at(self, when: float, happen: Callable[[], None]) -> None:
        self._order += 1
        heapq.heappush(self._events, (when, self._order, happen))

    def _arrive(self) -> None:
        self._at(self.now + self._random.expovariate(self._rate), self._arrive)
        gateway = self._random.choice(self.gateways)
        chosen = gateway.choose(self._random.random(), self.now)
        server = self.servers[_address(chosen)]
        self._counts[server.address] += 1
        chosen.backend.load.in_flight += 1
        server.waiting.append((self._duration_s(), chosen))
        self._start(server)

    def _start(self, server: Server) -> None:
        while server.waiting and server.running < SLOTS:
            duration_s, chosen = server.waiting.popleft()
            server.running += 1

            def end(chosen: Candidate = chosen) -> None:
                server.running -= 1
                chosen.backend.load.in_flight -= 1
                self._start(server)

            self._at(self.now + duration_s * server.slowness, end)

    def _duration_s(self) -> float:
        """About a second on average: most are short, and a few take many seconds."""
        if self._random.random() < 0.5:
            return self._random.expovariate(1.0)
        return self._random.lognormvariate(-0.5, 1.0)

    def _poll(self, server: Server) -> None:
        for gateway in self.gateways:
            self._at(self.now + EVERY_S * self._random.random(), self._polling(gateway, server))

    def _polling(self, gateway: Gateway, server: Server) -> Callable[[], None]:
        def poll() -> None:
            if not server.left:
                requests = server.requests
                later = self.now + GATHER_S * self._random.random()
                self._at(later, lambda: gateway.take_reading(server.address, requests))
                wait_s = EVERY_S * self._random.uniform(1.0 - JITTER, 1.0 + JITTER)
                self._at(self.now + wait_s, poll)

        return poll


def _address(candidate: Candidate) -> str:
    assert candidate.backend.replica is not None
    return candidate.backend.replica.address


def _candidate(address: str, joined_at: float, slow_start_s: float) -> Candidate:
    replica = Replica(address, joined_at=joined_at, slow_start_s=slow_start_s)
    backend = replace(backend_with("a/m", Supports()), replica=replica, load=Load())
    return Candidate(backend=backend, breaker=backend.breaker, name="a/m", model="m", weight=1.0)
