"""Keep the number of replicas that the load requires, and the file with their addresses.

One tick per second: look at the cluster, read the gauges of the engines, write the file, and then
place or end replicas. While the cluster cannot be used, the file stays as it is: gateways do not
need the cluster, and whether an engine answers they find out themselves.
"""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from hashlib import sha256
from itertools import count
from pathlib import Path
from typing import Protocol, TypeVar

import msgspec

from strowger_gateway.gateway.backends.placement.address_file import AddressFile
from strowger_gateway.gateway.backends.placement.cluster import (
    ANYWHERE,
    Cluster,
    ClusterFailed,
    Placed,
)
from strowger_gateway.gateway.backends.placement.departures import Departures
from strowger_gateway.gateway.backends.placement.metrics import PlacementMetrics
from strowger_gateway.gateway.backends.placement.scaler import EngineLoad, Scaler
from strowger_gateway.gateway.backends.placement.settings import Placement
from strowger_gateway.gateway.backends.placement.siting import where

_T = TypeVar("_T")
_log = logging.getLogger("strowger.placement")

TICK_S = 1.0
UNPLACED_S = 5.0
"""How long a replica waits for the nodes that are preferred before any node will do."""

CALL_S = 30.0
"""How long a tick waits for the cluster."""


class GaugeReader(Protocol):
    """faults: why an engine cannot be read, by address."""

    faults: dict[str, str]

    def read(self, addresses: Collection[str]) -> Awaitable[Mapping[str, EngineLoad]]:
        """Return the loads of the engines that answer."""
        ...


class Supervisor:
    """`tick` until the process ends; replicas outlive it, and the next process takes them over."""

    def __init__(
        self,
        settings: Placement,
        cluster: Cluster,
        gauges: GaugeReader,
        metrics: PlacementMetrics,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._settings = settings
        self._cluster = cluster
        self._gauges = gauges
        self._metrics = metrics
        self._clock = clock
        self._file = AddressFile(Path(settings.file))
        self._scaler = Scaler(settings.replicas)
        self._departures = Departures(settle_s=settings.settle_s, drain_s=settings.listen.drain_s)
        self._digest = digest(settings)
        self._thread = ThreadPoolExecutor(1, "cluster")
        self._numbers = count(int(time.time()))
        self._goal = 0
        self._unplaced: dict[str, float] = {}
        self._anywhere: set[str] = set()
        self._said: dict[str, str] = {}

    async def run(self, stop: asyncio.Event) -> None:
        """Tick until `stop` is set."""
        await self._file.read()
        while not stop.is_set():
            await self.tick()
            try:
                async with asyncio.timeout(TICK_S):
                    await stop.wait()
            except TimeoutError:
                continue

    async def end_all(self, every_s: float = TICK_S) -> None:
        """End every replica of the pool, and return when they are gone. Raises ClusterFailed."""
        await self._file.read()
        while placed := await self._call(self._cluster.look):
            self._departures.recognise(placed, self._clock())
            for one in placed:
                self._departures.begin(one.name, self._clock())
            self._write(())
            await self._depart(placed)
            await asyncio.sleep(every_s)
        self._write(())

    async def tick(self) -> None:
        """Do what is due now. Failures are logged, once each."""
        try:
            placed = await self._call(self._cluster.look)
            self._say("cluster", "")
            await self._supervise(placed)
        except ClusterFailed as exc:
            self._say("cluster", f"{exc}; the addresses stay as they are")

    async def _supervise(self, placed: Sequence[Placed]) -> None:
        at = self._clock()
        self._departures.recognise(placed, at)
        for one in placed:
            if one.lost and one.name not in self._departures.names:
                _log.warning("%s is lost and will be replaced", one.name)
                self._departures.begin(one.name, at)
            self._say(one.name, _trouble(one))
        addresses = {
            one.report.address: one.name
            for one in placed
            if one.report is not None and one.report.state == "ready"
        }
        loads = await self._gauges.read({*addresses, *self._file.addresses})
        staying = [one for one in placed if one.name not in self._departures.names]
        await self._adjust(staying, {addresses.get(one, ""): loads[one] for one in loads}, at)
        self._write(self._listed(addresses, loads))
        await self._depart(placed)
        self._metrics.show(placed, self._departures.names, tuple(loads.values()))

    def _listed(
        self, addresses: Mapping[str, str], loads: Mapping[str, EngineLoad]
    ) -> Collection[str]:
        """Return the addresses for the file.

        A new one must answer first. A keeper's word keeps one that is too busy to answer, and an
        engine's answer keeps one whose keeper cannot be asked.
        """
        leaving = self._departures.names
        known = {one for one, name in addresses.items() if name not in leaving}
        ending = addresses.keys() - known
        for address in known - loads.keys() - self._file.addresses:
            why = self._gauges.faults.get(address, "it does not answer")
            self._say(address, f"{addresses[address]} is not listed: {why}")
        for address in loads:
            self._say(address, "")
        return {
            one
            for one in (*known, *self._file.addresses)
            if one not in ending and (one in loads or (one in known & self._file.addresses))
        }

    async def _adjust(
        self, staying: Sequence[Placed], loads: Mapping[str, EngineLoad], at: float
    ) -> None:
        """Place a replica, or choose those that leave. loads: by name."""
        current = [one for one in staying if one.name.startswith(self._digest)]
        outdated = [one for one in staying if not one.name.startswith(self._digest)]
        ready = [one for one in current if one.name in loads]
        wanted = self._wanted(at, current, outdated, loads)
        self._metrics.wanted.set(wanted)
        waiting, stuck = await self._waiting(current, at)
        starting = len(current) - len(ready)
        spare = len(ready) + len(outdated) > wanted
        if outdated and (spare or stuck) and not self._departures.names:
            one = min(outdated, key=lambda one: _busy(one, loads))
            self._leave(one, "has other settings", at)
        if len(current) < wanted and not waiting and not (outdated and starting):
            await self._place(current, at)
        for one in _superfluous(current, len(current) - wanted, loads):
            self._leave(one, f"is not needed: {wanted} replicas suffice", at)

    def _wanted(
        self,
        at: float,
        current: Sequence[Placed],
        outdated: Sequence[Placed],
        loads: Mapping[str, EngineLoad],
    ) -> int:
        """Return how many replicas there should be; also those that were and have been lost."""
        limits = self._settings.replicas
        all_of_them = [*current, *outdated]
        answers = [loads[one.name] for one in all_of_them if one.name in loads]
        if not self._goal:
            self._goal = min(max(len(all_of_them), limits.min), limits.max)
        if len(current) < self._goal:
            return self._goal
        whole = len(answers) == len(all_of_them) and not outdated
        self._goal = self._scaler.wanted(at, len(current), answers, whole=whole)
        return self._goal

    async def _waiting(self, current: Sequence[Placed], at: float) -> tuple[bool, bool]:
        """Return whether a replica waits for a node, and whether none has room for it.

        One that waits too long for a preferred node gets any.
        """
        unplaced = [one.name for one in current if not one.node]
        self._unplaced = {name: self._unplaced.get(name, at) for name in unplaced}
        self._anywhere &= set(unplaced)
        late = [name for name in unplaced if at - self._unplaced[name] >= UNPLACED_S]
        if not late:
            self._say("unplaced", "")
            return bool(unplaced), False
        if not await self._call(self._cluster.nodes):
            self._say("unplaced", await self._call(self._cluster.lacking))
        else:
            self._say("unplaced", f"{len(unplaced)} replicas wait for free ray.resources")
        stuck = any(name in self._anywhere for name in late)
        for name in late:
            if name not in self._anywhere:
                await self._call(lambda name=name: self._cluster.remove(name))
                del self._unplaced[name]
                await self._place([one for one in current if one.name != name], at, retry=True)
        return True, stuck

    async def _place(self, current: Sequence[Placed], at: float, *, retry: bool = False) -> None:
        strategy = self._settings.ray.strategy
        nodes = await self._call(self._cluster.nodes)
        place = where(strategy, nodes, [one.node for one in current if one.node])
        if retry and strategy != "STRICT_SPREAD":
            place = ANYWHERE
        name = f"{self._digest}-{next(self._numbers)}"
        if retry or place == ANYWHERE:
            self._anywhere.add(name)
        self._unplaced[name] = at
        _log.info("placing %s, replica %d of the pool", name, len(current) + 1)
        await self._call(lambda: self._cluster.place(name, place))

    def _leave(self, one: Placed, why: str, at: float) -> None:
        _log.info("%s leaves: it %s", one.name, why)
        self._departures.begin(one.name, at)

    async def _depart(self, placed: Sequence[Placed]) -> None:
        for name, step in tuple(self._departures.due(placed, self._clock())):
            if step == "end":
                await self._call(lambda name=name: self._cluster.end(name))
            else:
                await self._call(lambda name=name: self._cluster.remove(name))
                _log.info("%s is removed", name)

    def _write(self, addresses: Collection[str]) -> None:
        before = self._file.addresses
        try:
            if self._file.write(addresses):
                added, removed = set(addresses) - before, before - set(addresses)
                _log.info(
                    "%s: %d engines (added: %s; removed: %s)",
                    self._settings.file,
                    len(addresses),
                    ", ".join(sorted(added)) or "none",
                    ", ".join(sorted(removed)) or "none",
                )
            self._say("file", "")
        except OSError as exc:
            self._say("file", f"file: {self._settings.file} cannot be written: {exc.strerror}")

    async def _call(self, call: Callable[[], _T]) -> _T:
        """Run a call to the cluster in its thread. Raises ClusterFailed."""
        waiting = asyncio.get_running_loop().run_in_executor(self._thread, call)
        try:
            async with asyncio.timeout(CALL_S):
                return await waiting
        except TimeoutError as exc:
            raise ClusterFailed(f"the cluster has not answered within {CALL_S:g} s") from exc

    def _say(self, about: str, why: str) -> None:
        """Log a trouble once while it lasts. why: "" if there is none."""
        if not why:
            self._said.pop(about, None)
        elif self._said.get(about) != why:
            self._said[about] = why
            _log.error("%s", why)


def digest(settings: Placement) -> str:
    """Return what changes with the settings of an engine: those with others are replaced."""
    parts = msgspec.json.encode((settings.engine, settings.listen, settings.ray.resources))
    return sha256(parts).hexdigest()[:8]


def _busy(one: Placed, loads: Mapping[str, EngineLoad]) -> int:
    load = loads.get(one.name)
    return -1 if load is None else load.running + load.waiting


def _superfluous(
    current: Sequence[Placed], number: int, loads: Mapping[str, EngineLoad]
) -> Sequence[Placed]:
    """Return those to end: first what is not ready, then what shares its node, then the idlest."""
    left = list(current)
    chosen: list[Placed] = []
    for _ in range(number):
        nodes = [one.node for one in left]
        one = min(
            left,
            key=lambda one: (one.name in loads, -nodes.count(one.node), _busy(one, loads)),
        )
        left.remove(one)
        chosen.append(one)
    return chosen


def _trouble(one: Placed) -> str:
    report = one.report
    if report is None or report.state != "failed":
        return ""
    return f"{one.name}: the engine on {report.host} has ended: {report.detail}"
