"""One gateway of the fleet: the gateway's own policies, breakers, budgets, leases and messages."""

import asyncio
import random
from collections.abc import Coroutine, Mapping, Sequence
from functools import partial

import msgspec
from msgspec.structs import replace

from benchmarks.fleet.redis import Connection, Redis
from benchmarks.fleet.replicas import Server
from benchmarks.fleet.virtual_time import VirtualLoop
from strowger_gateway.adapters.base import Supports
from strowger_gateway.gateway.backends.gauges.poller import EVERY_S, GATHER_S, JITTER
from strowger_gateway.gateway.config.schema.config import Config
from strowger_gateway.gateway.coordination.breaker_messages import (
    BreakerUpdate,
    LoadUpdate,
    OutcomeWatch,
    ToWorker,
)
from strowger_gateway.gateway.coordination.gateway_sync import GatewaySync
from strowger_gateway.gateway.coordination.outcome_reports import OutcomeReports
from strowger_gateway.gateway.coordination.probe_locks import LocalLeases
from strowger_gateway.gateway.coordination.state_hub import StateHub
from strowger_gateway.gateway.coordination.state_sharing import SEND_INTERVAL_S
from strowger_gateway.gateway.governance.leases.messages import ToLeader
from strowger_gateway.gateway.governance.limits.lease_worker import LimitLeaseWorker
from strowger_gateway.gateway.governance.limits.ledger import Hold
from strowger_gateway.gateway.governance.limits.limits import RequestLimits
from strowger_gateway.gateway.governance.limits.over_gateways.shared_limits import SharedLimits
from strowger_gateway.gateway.routing.planning.candidate import Candidate
from strowger_gateway.gateway.routing.planning.policies import POLICIES, BackendStats
from strowger_gateway.gateway.routing.planning.replica_order import replica_order
from strowger_gateway.gateway.routing.planning.route import Backend
from strowger_gateway.gateway.routing.resilience.recent_activity import Load
from strowger_gateway.gateway.routing.resilience.replica import REPLICA_MARK, Replica
from strowger_gateway.gateway.routing.resilience.retry import RetryBudget
from tests.gateway.routing.backends import backend_with

HEDGES_FLOOR, HEDGES_SHARE = 10, 0.1


def config_of(pools: int, limit: int, keys: int) -> Config:
    """One model with so many pools; a limit of requests per minute for each key."""
    names = [f"pool-{number}" for number in range(pools)]
    return msgspec.convert(
        {
            "providers": [
                {"name": name, "adapter": "vllm", "base_url": f"http://{name}.test/v1"}
                for name in names
            ],
            "models": [
                {
                    "name": "chat",
                    "backends": [{"provider": name, "model": "m"} for name in names],
                }
            ],
            "limits": [
                {
                    "name": "each",
                    "who": {"any": True},
                    "each": "key",
                    "requests": limit,
                    "exact": False,
                }
            ],
        },
        Config,
    )


class Gateway:
    """A gateway with one process.

    servers: by pool. attempts, probes, hedges: how many it has started.
    """

    def __init__(
        self,
        number: int,
        loop: VirtualLoop,
        redis: Redis,
        config: Config,
        servers: Mapping[str, Sequence[Server]],
    ) -> None:
        self._loop = loop
        self._policy = POLICIES["weighted"]
        self.probes = self.hedges = 0
        self.hedging = RetryBudget(floor=HEDGES_FLOOR, share=HEDGES_SHARE)
        self.retries = RetryBudget()
        self.servers: dict[str, Server] = {}
        self.found: list[Candidate] = []
        self._by_key: dict[str, Backend] = {}
        self._outcomes = OutcomeReports(lambda key: self._by_key[key].breaker)
        holders: dict[str, LocalLeases] = {}
        own = LocalLeases(holders)
        self.hub = StateHub()
        for pool, members in servers.items():
            for server in members:
                key = f"chat: {pool}/m{REPLICA_MARK}{server.address}"
                backend = _backend(f"{pool}/m", server.address, self.retries)
                backend.breaker.lease = own.lease(key)
                backend.breaker.changed = partial(self._changed, key)
                backend.breaker.on_failure = partial(self._outcomes.on_failure, key)
                self._by_key[key] = backend
                self.servers[server.address] = server
                self.found.append(
                    Candidate(
                        backend=backend,
                        breaker=backend.breaker,
                        name=backend.name,
                        model="m",
                        weight=1.0,
                    )
                )
        self._stats = [BackendStats(name=one.name) for one in self.found]
        connection = Connection(redis, f"gateway-{number}")
        self.sync = GatewaySync(
            self.hub, connection, LocalLeases(holders), lambda: config, loop.time
        )
        self.hub.join(0, self._receive)
        self.limits = RequestLimits(config.limits, loop.nanoseconds)
        self.shared = SharedLimits(
            Connection(redis, f"gateway-{number}"),
            f"gateway-{number}",
            lambda: config.limits,
            loop.nanoseconds,
        )
        self.leases = LimitLeaseWorker(self.limits, self._to_leader, loop.nanoseconds)
        self.shared.join(0, self.leases.on_message)

    def works(self) -> list[Coroutine[None, None, None]]:
        """What runs as long as the gateway."""
        polls = [self._poll(one) for one in self._by_key.values()]
        return [
            self.sync.run(),
            self.shared.run(),
            self.leases.report(),
            self._send_loads(),
            *polls,
        ]

    def order(self) -> list[Candidate]:
        """The replicas that may be asked, first choice first, as a plan has them."""
        now = self._loop.time()
        order = replica_order(self.found, self._stats, self._policy, random.random(), b"", now)
        return [one for at in order if (one := self.found[at]).breaker.is_available(now)]

    async def admit(self, key: str) -> bool:
        """Whether the limits admit a request of a key."""
        accounts = self.limits.of((key, "chat", "chat", "", "", "", ""))
        assert accounts is not None
        hold = accounts.reserve(0, self._loop.nanoseconds())
        found = hold or await self.leases.ask(accounts, 0)
        return isinstance(found, Hold)

    def _to_leader(self, message: ToLeader) -> None:
        self.shared.on_message(0, message)

    def _changed(self, key: str) -> None:
        snapshot = self._by_key[key].breaker.snapshot()
        self.hub.on_message(0, BreakerUpdate(health={key: snapshot}))

    def _receive(self, message: ToWorker) -> None:
        match message:
            case OutcomeWatch():
                self._outcomes.watch(message.since, self._loop.time())
            case BreakerUpdate():
                for key, one in message.health.items():
                    self._by_key[key].breaker.merge(one)
            case LoadUpdate():
                for key, count in message.attempts.items():
                    self._by_key[key].load.other_processes = count
                self.hedging.processes = self.retries.processes = 1 + message.processes

    async def _send_loads(self) -> None:
        """See StateSharing.send_updates."""
        sent: dict[str, int] = {}
        while True:
            await asyncio.sleep(SEND_INTERVAL_S)
            if outcomes := self._outcomes.changes(self._loop.time()):
                self.hub.on_message(0, outcomes)
            loads = {key: one.load.in_flight for key, one in self._by_key.items()}
            changed = {key: count for key, count in loads.items() if count != sent.get(key, 0)}
            if changed:
                sent = loads
                total = sum(loads.values())
                self.hub.on_message(0, LoadUpdate(attempts=changed, in_flight=total, buffered=0))

    async def _poll(self, backend: Backend) -> None:
        """See GaugePoller."""
        replica = backend.replica
        assert replica is not None
        server = self.servers[replica.address]
        await asyncio.sleep(EVERY_S * random.random())
        while True:
            requests = server.requests
            gathered_s = GATHER_S * random.random()
            await asyncio.sleep(gathered_s)
            replica.note(requests if server.up else None, backend.load.busy)
            await asyncio.sleep(EVERY_S * random.uniform(1.0 - JITTER, 1.0 + JITTER) - gathered_s)


def _backend(name: str, address: str, retries: RetryBudget) -> Backend:
    backend = backend_with(name, Supports())
    return replace(backend, budget=retries, replica=Replica(address), load=Load())
