"""A cluster in memory, as strict as Ray: names are used once, nodes are never overbooked.

Each look takes a second of its clock, and an engine is ready one look after it has been placed.
"""

from collections.abc import Collection, Mapping, Sequence
from pathlib import Path

import msgspec
from msgspec.structs import replace

from strowger_gateway.gateway.backends.placement.cluster import (
    ClusterFailed,
    KeeperReport,
    Placed,
    Where,
)
from strowger_gateway.gateway.backends.placement.metrics import PlacementMetrics
from strowger_gateway.gateway.backends.placement.scaler import EngineLoad
from strowger_gateway.gateway.backends.placement.settings import (
    Listen,
    Placement,
    Ray,
    Replicas,
    Strategy,
)
from strowger_gateway.gateway.backends.placement.supervisor import Supervisor
from strowger_gateway.gateway.config.schema.config import Engine, EngineModel
from strowger_gateway.gateway.config.schema.engines import EngineTls

IDLE = EngineLoad(running=0, waiting=0)
LISTEN = Listen(cert="/c", key="/k", ca="/a", drain_s=20)


class StandInCluster:
    """slots: free ones by node. away: it cannot be used. ended, removed: names, in order.

    loads: of engines, by address; those that are not in it do not answer.
    """

    def __init__(self, **slots: int) -> None:
        self.slots = dict(slots)
        self.away = False
        self.ended: list[str] = []
        self.removed: list[str] = []
        self.placed: dict[str, Placed] = {}
        self.loads: dict[str, EngineLoad] = {}
        self.faults: dict[str, str] = {}
        self.load = IDLE
        self.at = 0.0
        self._wanted: dict[str, Where] = {}
        self._names: set[str] = set()

    def look(self) -> Sequence[Placed]:
        """See Cluster.look."""
        self.at += 1.0
        self._reach()
        for name, one in list(self.placed.items()):
            if not one.node:
                self._reserve(name)
            elif one.report is not None and one.report.state == "starting":
                address = f"127.0.0.1:{9000 + len(self._names) + len(self.loads)}"
                self.loads[address] = self.load
                self.placed[name] = replace(one, report=ready(address))
        return list(self.placed.values())

    def place(self, name: str, where: Where) -> None:
        """See Cluster.place."""
        self._reach()
        assert name not in self._names, "Ray refuses a name that is taken"
        self._names.add(name)
        self._wanted[name] = where
        self.placed[name] = Placed(name=name)
        self._reserve(name)

    def nodes(self) -> Sequence[str]:
        """See Cluster.nodes."""
        self._reach()
        return list(self.slots)

    def lacking(self) -> str:
        """See Cluster.lacking."""
        return "ray.resources: no node has {NPU: 1}"

    def end(self, name: str) -> None:
        """See Cluster.end."""
        self._reach()
        one = self.placed[name]
        assert one.report is not None
        self.loads.pop(one.report.address, None)
        self.placed[name] = replace(one, report=KeeperReport(state="ended"))
        self.ended.append(name)

    def remove(self, name: str) -> None:
        """See Cluster.remove."""
        self._reach()
        one = self.placed.pop(name)
        if one.node in self.slots:
            self.slots[one.node] += 1
        self.removed.append(name)

    async def read(self, addresses: Collection[str]) -> Mapping[str, EngineLoad]:
        """See GaugeReader.read."""
        return {one: self.loads[one] for one in addresses if one in self.loads}

    def kill(self, name: str) -> None:
        """End a replica and its keeper for good."""
        one = self.placed[name]
        assert one.report is not None
        self.loads.pop(one.report.address, None)
        self.placed[name] = replace(one, lost=True, report=None)

    def use(self, load: EngineLoad) -> None:
        """Set the load of every engine."""
        self.load = load
        self.loads = dict.fromkeys(self.loads, load)

    @property
    def ready(self) -> list[Placed]:
        return [
            one
            for one in self.placed.values()
            if one.report is not None and one.report.state == "ready"
        ]

    def _reserve(self, name: str) -> None:
        where = self._wanted[name]
        able = [
            node
            for node, free in self.slots.items()
            if free and node not in where.avoid and (not where.only or node in where.only)
        ]
        if able:
            node = max(able, key=lambda node: self.slots[node])
            self.slots[node] -= 1
            self.placed[name] = Placed(name=name, node=node, report=KeeperReport(state="starting"))

    def _reach(self) -> None:
        if self.away:
            raise ClusterFailed("Ray: it is away")


def ready(address: str) -> KeeperReport:
    return KeeperReport(state="ready", address=address, host="node")


class Placing:
    """A supervisor of a cluster, one second per tick."""

    def __init__(
        self, folder: Path, cluster: StandInCluster, strategy: Strategy = "SPREAD", **more: float
    ) -> None:
        self.cluster = cluster
        self.file = folder / "engines.json"
        self.settings = Placement(
            file=str(self.file),
            engine=Engine(models=(EngineModel(name="m", path="bundled:tiny-chat"),)),
            listen=LISTEN,
            tls=EngineTls(cert="c", key="k", ca="a"),
            ray=Ray(resources={"NPU": 1.0}, strategy=strategy),
            replicas=msgspec.convert(more, Replicas),
        )
        self.restart()

    def restart(self) -> None:
        """As another process."""
        self.supervisor = Supervisor(
            self.settings, self.cluster, self.cluster, PlacementMetrics(), lambda: self.cluster.at
        )

    async def seconds(self, number: int) -> None:
        for _ in range(number):
            await self.supervisor.tick()

    @property
    def listed(self) -> set[str]:
        groups: list[dict[str, list[str]]] = msgspec.json.decode(self.file.read_bytes())
        return set(groups[0]["targets"])
