"""Synchronise breakers, outcomes and loads with other gateways; a peer of the hub, in background.

It sends the updates of its own processes and forwards those of other gateways. Without the
transport each gateway continues with its own knowledge. No request waits for any of this.
"""

import asyncio
import logging
import random
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import TypeVar

from msgspec import Struct

from strowger_gateway.gateway.config.schema.config import Config
from strowger_gateway.gateway.config.schema.failover import BreakerRule
from strowger_gateway.gateway.coordination.breaker_messages import (
    BreakerUpdate,
    LoadUpdate,
    OutcomeUpdate,
    OutcomeWatch,
    ToWorker,
)
from strowger_gateway.gateway.coordination.evidence_sum import Reported
from strowger_gateway.gateway.coordination.gateway_messages import (
    GatewayState,
    Shared,
    Unreadable,
    body_in,
    body_of,
    clock_of,
    lease_name,
    notice,
    shifted,
    state_in,
)
from strowger_gateway.gateway.coordination.gateway_transport import (
    GatewayTransport,
    TransportUnavailable,
)
from strowger_gateway.gateway.coordination.key_versions import KeyVersions, NoKeys
from strowger_gateway.gateway.coordination.peer_loads import PeerLoads
from strowger_gateway.gateway.coordination.probe_lease import LocalProbeBlocks, ProbeLeases
from strowger_gateway.gateway.coordination.shared_circuits import SharedCircuits, bounded
from strowger_gateway.gateway.coordination.shared_evidence import EvidenceRules, SharedEvidence
from strowger_gateway.gateway.coordination.state_hub import StateHub
from strowger_gateway.gateway.platform.clock import now
from strowger_gateway.gateway.routing.resilience.breaker_per_model import NAMED
from strowger_gateway.gateway.routing.resilience.breaker_snapshot import BreakerSnapshot
from strowger_gateway.gateway.routing.resilience.circuit_breaker import jittered

_log = logging.getLogger("strowger")

PEER = -1
"""This peer's number at the hub; workers are numbered from 0."""

TICK_S = 0.2
"""Maximum interval between syncs; up to a quarter less at random, to spread the gateways."""

PEER_TIMEOUT_S = 3.0
"""Silence after which a gateway counts as gone, with nothing in flight."""

FORGET_S = 60.0
"""A notice that has not changed for this long is removed."""

MAX_PAUSE_S = 1.0
"""Maximum interval between attempts while the transport is unavailable."""

_NEVER = float("-inf")


class Peer(Struct, kw_only=True):
    """Another gateway as last seen. since: when its notice last changed.

    ahead: our clock minus its clock when `state` was read, seconds. outcomes: of `state`, of
    backends that are here too.
    """

    clock: float
    since: float
    alive: bool = False
    body: bytes = b""
    state: GatewayState = GatewayState()
    ahead: float = 0.0
    outcomes: dict[str, Reported] = {}


_Told = TypeVar("_Told")


class GatewaySync:
    """`run` it alongside the server.

    unavailable:     the last sync failed.
    last_success_at: time of the last successful sync, Unix seconds; 0: never.
    opened: circuits that this gateway has opened on what several have seen.
    """

    def __init__(
        self,
        hub: StateHub,
        transport: GatewayTransport,
        blocks: LocalProbeBlocks,
        config: Callable[[], Config],
        clock: Callable[[], float] = now,
        *,
        keys: KeyVersions | None = None,
    ) -> None:
        """blocks: the leader's leases among the processes of this gateway.

        config: returns the current configuration, read at each sync.
        """
        self._hub = hub
        self._transport = transport
        self._name = transport.name.encode()
        self._clock = clock
        self._leases = ProbeLeases(transport, blocks)
        self._config = config
        self._keys = keys or NoKeys()
        self._for_config = config()
        self._shared = Shared(self._for_config)
        self._circuits = SharedCircuits()
        self._evidence = SharedEvidence(
            EvidenceRules(self._rule, self._circuits.known.get, self._expected)
        )
        self._watched: Collection[str] = ()
        self._busy: dict[str, int] = {}
        self._peers: dict[bytes, Peer] = {}
        self._unreadable: set[bytes] = set()
        self._peer_loads = PeerLoads(self._place)
        self.unavailable = False
        self.last_success_at = 0.0
        self.opened = 0
        self._processes = 1
        self._peer_processes = self._differing = 0
        hub.join(PEER, self.on_message, processes=0)
        hub.count(self._on_outcomes)

    @property
    def gateways(self) -> int:
        """The number of live gateways, this one included."""
        return 1 + sum(other.alive for other in self._peers.values())

    @property
    def differing(self) -> int:
        """The number of live gateways with another configuration file."""
        own = self._for_config.digest
        digests = (other.state.digest for other in self._peers.values() if other.alive)
        return sum(digest not in {"", own} for digest in digests)

    @property
    def watched(self) -> int:
        """The number of backends that are watched because they fail on several gateways."""
        return len(self._watched)

    def on_message(self, message: ToWorker) -> None:
        """Store an update of the processes of this gateway."""
        match message:
            case BreakerUpdate(health=health):
                for key, one in health.items():
                    self._circuits.on_own(key, one)
            case OutcomeWatch():
                pass  # our own
            case LoadUpdate(attempts=attempts, processes=processes):
                self._processes = max(1, processes)
                merged = {**self._busy, **attempts}
                self._busy = {key: count for key, count in merged.items() if count}

    async def run(self) -> None:
        """Sync until cancelled."""
        pause = TICK_S
        try:
            while True:
                try:
                    await self.sync()
                except TransportUnavailable as exc:
                    self._on_unavailable(exc)
                    pause = min(pause * 2.0, MAX_PAUSE_S)
                else:
                    self._on_available()
                    pause = TICK_S
                await asyncio.sleep(pause * random.uniform(0.75, 1.0))
        finally:
            self._leases.release_all()
            await self._transport.leave()

    async def sync(self) -> None:
        """Send, read, and update the probe leases. Raises TransportUnavailable."""
        now = self._clock()
        if self._config() is not self._for_config:
            self._follow(self._config())
        gone = [name for name, other in self._peers.items() if now - other.since > FORGET_S]
        for name in gone:
            del self._peers[name]
            self._peer_loads.remove(name)
        notices = await self._transport.exchange(notice(now, self._body(now)), gone)
        self._read(notices, self._clock())
        self._judge(self._clock())
        known = self._circuits.known
        names = {
            key: lease_name(place, key)
            for key, one in known.items()
            if one.open_until is not None
            and NAMED not in key
            and (place := self._shared.place(key))
        }
        await self._leases.update(known, names, self.gateways, self._clock())

    def _follow(self, config: Config) -> None:
        """Use a new configuration, with which other backends may match those of the peers."""
        self._for_config, self._shared = config, Shared(config)
        self._peer_loads.remove_all()
        for other in self._peers.values():
            other.body, other.state, other.outcomes = b"", GatewayState(), {}

    def _body(self, now: float) -> bytes:
        return body_of(
            GatewayState(
                health=self._shared.by_place(self._circuits.published(now)),
                busy=self._shared.by_place(self._busy),
                outcomes=self._shared.by_place(self._evidence.report(now)),
                places=tuple(sorted(self._shared.places)),
                keys=self._keys.version,
                processes=self._processes,
                digest=self._for_config.digest,
            )
        )

    def _read(self, notices: Mapping[bytes, bytes], now: float) -> None:
        changes: dict[str, BreakerSnapshot] = {}
        self._unreadable &= notices.keys()
        for name, data in notices.items():
            if name != self._name:
                changes.update(self._read_peer(name, data, now))
        for name, other in self._peers.items():
            if name not in notices or now - other.since > PEER_TIMEOUT_S:
                other.alive = False
                self._peer_loads.remove(name)
        if changes:
            self._hub.on_message(PEER, BreakerUpdate(health=changes))
        self._forward_loads()

    def _read_peer(self, name: bytes, data: bytes, now: float) -> Mapping[str, BreakerSnapshot]:
        """Return what is new in the notice of one peer.

        The first sight of a notice is ignored: its writer may be dead. A live writer's clock moves.
        """
        try:
            theirs = clock_of(data)
            other = self._peers.get(name)
            if other is None:
                self._peers[name] = Peer(clock=theirs, since=now)
                return {}
            if theirs == other.clock:
                return {}
            other.clock, other.since = theirs, now
            body = body_in(data)
            if body == other.body and other.alive:
                return {}
            other.alive = True
            before, other.body = other.state, body
            other.state, other.ahead = state_in(body), now - theirs
            other.outcomes = dict(self._here(other.state.outcomes))
            self._peer_loads.put(name, other.state.busy)
            self._keys.noticed(other.state.keys)
        except Unreadable:
            if name not in self._unreadable:
                self._unreadable.add(name)
                _log.warning("cannot decode a gateway's notice; it may run another version")
            return {}
        return self._changed(before, other, now)

    def _changed(self, before: GatewayState, other: Peer, now: float) -> dict[str, BreakerSnapshot]:
        """Return changes of backends that exist here too, on our clock."""
        known = dict(self._here(before.health))
        return {
            key: self._circuits.adopt(key, self._ours(other, key, one, now), self._published(key))
            for key, one in self._here(other.state.health)
            if known.get(key) != one
        }

    def _published(self, key: str) -> Iterator[BreakerSnapshot]:
        """Yield what each live gateway publishes of a breaker, on our clock."""
        place, now = self._shared.place(key) or "", self._clock()
        for other in self._peers.values():
            one = other.state.health.get(place, {}).get(key)
            if other.alive and one is not None:
                yield self._ours(other, key, one, now)

    def _ours(self, other: Peer, key: str, one: BreakerSnapshot, now: float) -> BreakerSnapshot:
        """Return a snapshot of a gateway on our clock, within what our rule allows."""
        ours, rule = shifted(one, other.ahead), self._shared.rule(key)
        return ours if rule is None else bounded(ours, rule, now)

    def _here(self, by_place: Mapping[str, Mapping[str, _Told]]) -> Iterator[tuple[str, _Told]]:
        """Yield what a gateway publishes about backends that exist here too."""
        for place in self._shared.places & by_place.keys():
            for key, one in by_place[place].items():
                if self._shared.place(key) == place:
                    yield key, one

    def _place(self, key: str) -> str | None:
        return self._shared.place(key)

    def _rule(self, key: str) -> BreakerRule | None:
        return self._shared.rule(key)

    def _on_outcomes(self, message: OutcomeUpdate) -> None:
        """Outcomes of a process of this gateway."""
        self._evidence.count(message.outcomes, self._clock())

    def _expected(self, key: str) -> Collection[bytes]:
        """Return the live gateways with this configuration that have the backend.

        An older version has no `places`. It never reports, so its successes would be missing.
        """
        place, digest = self._shared.place(key), self._for_config.digest
        return [
            name
            for name, other in self._peers.items()
            if other.alive
            and (
                not other.state.places
                or (other.state.digest == digest and place in other.state.places)
            )
        ]

    def _judge(self, now: float) -> None:
        """Open the circuits of backends that fail on several gateways, and watch those that may."""
        peers = {name: other.outcomes for name, other in self._peers.items() if other.alive}
        opened: dict[str, BreakerSnapshot] = {}
        for key, evidence in self._evidence.update(peers, now).items():
            cooldown_s = evidence.rule.cooldown_s
            opened[key] = BreakerSnapshot(
                at=now,
                open_until=now + jittered(cooldown_s, random.random()),
                cooldown_s=cooldown_s,
                retry_after_until=_NEVER,
                last_failure=evidence.failed_at,
                seen_by=evidence.seen_by,
            )
            self._circuits.on_own(key, opened[key])
            _log.info(
                "%s: circuit opened, because %d gateways have seen %.0f failures more than it may",
                key,
                evidence.seen_by,
                evidence.value,
            )
        self.opened += len(opened)
        if opened:
            self._hub.on_message(PEER, BreakerUpdate(health=opened))
        watched = self._evidence.watched
        if watched.keys() != self._watched:
            self._hub.watch(OutcomeWatch(since=dict(watched)))
        self._watched = frozenset(watched)

    def _forward_loads(self) -> None:
        """Send the loads of all live peers to the hub: changed counts, and 0 for ended ones.

        Without Redis the last known number of processes applies: they still serve.
        """
        processes, differing = self._peer_processes, self.differing
        if not self.unavailable:
            processes = sum(one.state.processes for one in self._peers.values() if one.alive)
        changed = (processes, differing) != (self._peer_processes, self._differing)
        self._peer_processes, self._differing = processes, differing
        attempts = self._peer_loads.changes()
        if changed or attempts:
            self._hub.on_message(
                PEER,
                LoadUpdate(
                    attempts=attempts,
                    in_flight=0,
                    buffered=0,
                    processes=processes,
                    differing=differing,
                ),
            )

    def _on_unavailable(self, why: TransportUnavailable) -> None:
        if not self.unavailable:
            _log.warning(
                "other gateways unreachable (Redis at %s: %s); continuing with this gateway's own "
                "knowledge",
                self._transport.where,
                why,
            )
        self.on_outage()

    def on_outage(self) -> None:
        """Go on alone, until the next sync succeeds."""
        self.unavailable = True
        self._peers.clear()
        self._peer_loads.remove_all()
        self._leases.release_all()
        self._forward_loads()

    def _on_available(self) -> None:
        self.last_success_at = time.time()
        if self.unavailable:
            message = "Redis at %s reachable again; synchronising with other gateways"
            _log.info(message, self._transport.where)
        self.unavailable = False
