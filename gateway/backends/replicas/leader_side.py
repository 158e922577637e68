"""Finds the replicas of all backends once per gateway, and asks them how busy they are."""

from collections.abc import Sequence

from strowger_gateway.gateway.backends.discovery.discovered import Discovered
from strowger_gateway.gateway.backends.discovery.finder import ReplicaFinder
from strowger_gateway.gateway.backends.gauges.poller import GaugePoller
from strowger_gateway.gateway.backends.gauges.readings import ReplicaReadings
from strowger_gateway.gateway.config.schema.config import Config
from strowger_gateway.gateway.parts.leader_side import LeaderContext, LeaderSide, Work


class ReplicasLeader(LeaderSide[None, Discovered | ReplicaReadings]):
    """A configuration takes effect when its replicas are known, as far as they answer."""

    def __init__(self, at: LeaderContext) -> None:
        self._config = at.config
        self._finder = ReplicaFinder(crashed=at.crashed)
        self._gauges = GaugePoller(crashed=at.crashed)
        self._finder.send = self._gauges.send = at.broadcast
        at.registry.register(self._finder)
        at.registry.register(self._gauges)

    async def prepare(self, config: Config) -> None:
        """Find the replicas of a configuration. Raises as `ReplicaFinder.prepare`."""
        await self._finder.prepare(config)

    def first(self) -> Discovered:
        return self._finder.latest

    def works(self) -> Sequence[Work]:
        return (
            ("replica finder", lambda: self._finder.run(self._config)),
            ("replica gauges", lambda: self._gauges.run(self._config, self.first)),
        )

    async def close(self) -> None:
        await self._finder.close()
