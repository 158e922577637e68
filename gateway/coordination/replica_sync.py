"""Synchronise breakers and loads with other replicas; a peer of the hub, in the background.

It sends the updates of its own processes and forwards those of other replicas. Without the
transport each replica continues with its own knowledge. No request waits for any of this.
"""

import asyncio
import logging
import random
import time
from collections.abc import Callable, Mapping
from typing import Protocol

from msgspec import Struct

from gateway.clock import now
from gateway.config.schema.config import Config
from gateway.coordination.breaker_messages import BreakerUpdate, LoadUpdate
from gateway.coordination.probe_lease import LocalProbeBlocks, ProbeLeases
from gateway.coordination.replica_messages import (
    ReplicaState,
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
from gateway.coordination.replica_transport import ReplicaTransport, TransportUnavailable
from gateway.coordination.state_hub import StateHub, later
from gateway.routing.resilience.breaker_per_model import NAMED, bound
from gateway.routing.resilience.circuit_breaker import BreakerSnapshot

_log = logging.getLogger("strowger")

PEER = -1
"""This peer's number at the hub; workers are numbered from 0."""

TICK_S = 0.2
"""Maximum interval between syncs; up to a quarter less at random, to spread the replicas."""

PEER_TIMEOUT_S = 3.0
"""Silence after which a replica counts as gone, with nothing in flight."""

FORGET_S = 60.0
"""A notice that has not changed for this long is removed; a breaker that has been closed for this
long, without a cooldown, is not sent any more."""

MAX_PAUSE_S = 1.0
"""Maximum interval between attempts while the transport is unavailable."""

_NEVER = float("-inf")


class Peer(Struct, kw_only=True):
    """Another replica as last seen. since: when its notice last changed."""

    clock: float
    since: float
    alive: bool = False
    body: bytes = b""
    state: ReplicaState = ReplicaState()


class KeyVersions(Protocol):
    """The list of issued keys: replicas announce its version, and read it from the store."""

    @property
    def version(self) -> int: ...

    def noticed(self, version: int) -> None:
        """Another replica has this version."""
        ...


class NoKeys:
    """No issued keys."""

    version = -1

    def noticed(self, version: int) -> None: ...


class ReplicaSync:
    """`run` it alongside the server.

    unavailable:     the last sync failed.
    last_success_at: time of the last successful sync, Unix seconds; 0: never.
    """

    def __init__(
        self,
        hub: StateHub,
        transport: ReplicaTransport,
        blocks: LocalProbeBlocks,
        config: Callable[[], Config],
        clock: Callable[[], float] = now,
        *,
        keys: KeyVersions | None = None,
    ) -> None:
        """bars: the leader's leases among the processes of this replica.

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
        self._own: dict[str, BreakerSnapshot] = {}
        self._known: dict[str, BreakerSnapshot] = {}
        self._busy: dict[str, int] = {}
        self._peers: dict[bytes, Peer] = {}
        self._unreadable: set[bytes] = set()
        self._passed: dict[str, BreakerSnapshot] = {}
        self._peer_loads: dict[str, int] = {}
        self.unavailable = False
        self.last_success_at = 0.0
        self._processes = 1
        self._peer_processes = self._differing = 0
        hub.join(PEER, self.on_message, processes=0)

    @property
    def replicas(self) -> int:
        """The number of live replicas, this one included."""
        return 1 + sum(other.alive for other in self._peers.values())

    @property
    def differing(self) -> int:
        """The number of live replicas with another configuration file."""
        own = self._for_config.digest
        digests = (other.state.digest for other in self._peers.values() if other.alive)
        return sum(digest not in {"", own} for digest in digests)

    def on_message(self, message: BreakerUpdate | LoadUpdate) -> None:
        """Store an update of the processes of this replica."""
        match message:
            case BreakerUpdate(health=health):
                for key, one in health.items():
                    self._merge_known(key, one)
                    own = _without(one, self._passed.get(key))
                    known = self._own.get(key)
                    self._own[key] = own if known is None else later(known, own)
                bound(self._own)
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
        notices = await self._transport.exchange(notice(now, self._body(now)), gone)
        self._read(notices, self._clock())
        names = {
            key: lease_name(place, key)
            for key in self._known
            if NAMED not in key and (place := self._shared.place(key))
        }
        await self._leases.update(self._known, names, self.replicas, self._clock())

    def _follow(self, config: Config) -> None:
        """Use a new configuration, with which other backends may match those of the peers."""
        self._for_config, self._shared = config, Shared(config)
        for other in self._peers.values():
            other.body, other.state = b"", ReplicaState()

    def _body(self, now: float) -> bytes:
        self._own = {
            key: one
            for key, one in self._own.items()
            if one.open_until is not None
            or max(one.at, one.retry_after_until, one.deprioritised_until) > now - FORGET_S
        }
        health: dict[str, dict[str, BreakerSnapshot]] = {}
        busy: dict[str, dict[str, int]] = {}
        for key, one in self._own.items():
            if place := self._shared.place(key):
                health.setdefault(place, {})[key] = one
        for key, count in self._busy.items():
            if place := self._shared.place(key):
                busy.setdefault(place, {})[key] = count
        return body_of(
            ReplicaState(
                health=health,
                busy=busy,
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
            other.clock, other.since, other.alive = theirs, now, True
            body = body_in(data)
            if body == other.body:
                return {}
            before, other.body = other.state, body
            other.state = state_in(body)
            self._keys.noticed(other.state.keys)
        except Unreadable:
            if name not in self._unreadable:
                self._unreadable.add(name)
                _log.warning("cannot decode a replica's notice; it may run another version")
            return {}
        return self._changed(before, other.state, now - theirs)

    def _changed(
        self, before: ReplicaState, after: ReplicaState, ahead: float
    ) -> dict[str, BreakerSnapshot]:
        """Return changes of backends that exist here too, on our clock.

        ahead: our clock minus theirs, seconds.
        """
        changes: dict[str, BreakerSnapshot] = {}
        for place in self._shared.places & after.health.keys():
            old = before.health.get(place, {})
            for key, one in after.health[place].items():
                if old.get(key) != one and self._shared.place(key) == place:
                    changes[key] = shifted(one, ahead)
                    self._merge_known(key, changes[key])
                    passed = self._passed.get(key)
                    self._passed[key] = later(passed, changes[key]) if passed else changes[key]
        bound(self._passed)
        return changes

    def _forward_loads(self) -> None:
        """Send the loads of all live peers to the hub: changed counts, and 0 for ended ones.

        Without Redis the last known number of processes applies: they still serve.
        """
        processes, differing = self._peer_processes, self.differing
        if not self.unavailable:
            processes = sum(one.state.processes for one in self._peers.values() if one.alive)
        changed = (processes, differing) != (self._peer_processes, self._differing)
        self._peer_processes, self._differing = processes, differing
        total: dict[str, int] = {}
        for other in self._peers.values():
            if other.alive:
                for place in self._shared.places & other.state.busy.keys():
                    for key, count in other.state.busy[place].items():
                        if self._shared.place(key) == place:
                            total[key] = total.get(key, 0) + count
        if changed or total != self._peer_loads:
            ended = dict.fromkeys(self._peer_loads.keys() - total.keys(), 0)
            self._peer_loads = total
            self._hub.on_message(
                PEER,
                LoadUpdate(
                    attempts={**ended, **total},
                    in_flight=0,
                    buffered=0,
                    processes=processes,
                    differing=differing,
                ),
            )

    def _merge_known(self, key: str, health: BreakerSnapshot) -> None:
        known = self._known.get(key)
        self._known[key] = later(known, health) if known else health
        bound(self._known)

    def _on_unavailable(self, why: TransportUnavailable) -> None:
        if not self.unavailable:
            _log.warning(
                "other replicas unreachable (Redis at %s: %s); continuing with this replica's own "
                "knowledge",
                self._transport.where,
                why,
            )
        self.on_outage()

    def on_outage(self) -> None:
        """Go on alone, until the next sync succeeds."""
        self.unavailable = True
        self._peers.clear()
        self._leases.release_all()
        self._forward_loads()

    def _on_available(self) -> None:
        self.last_success_at = time.time()
        if self.unavailable:
            message = "Redis at %s reachable again; synchronising with other replicas"
            _log.info(message, self._transport.where)
        self.unavailable = False


def _without(health: BreakerSnapshot, passed: BreakerSnapshot | None) -> BreakerSnapshot:
    """Return the part of a process's snapshot that did not come from another replica.

    Sending that part back would add up to one sync interval to its times on each round trip.
    """
    if passed is None:
        return health
    new = health.at != passed.at
    return BreakerSnapshot(
        at=health.at if new else _NEVER,
        open_until=health.open_until if new else None,
        cooldown_s=health.cooldown_s,
        retry_after_until=health.retry_after_until
        if health.retry_after_until != passed.retry_after_until
        else _NEVER,
        last_failure=health.last_failure if health.last_failure != passed.last_failure else _NEVER,
        deprioritised_until=health.deprioritised_until
        if health.deprioritised_until != passed.deprioritised_until
        else _NEVER,
        rate_limited_until=health.rate_limited_until
        if health.rate_limited_until != passed.rate_limited_until
        else _NEVER,
    )
