"""The replicas of all backends in the leader: where they are, and how busy they say they are."""

from collections.abc import Awaitable, Callable

from strowger_gateway.gateway.backends.discovery.discovered import Discovered
from strowger_gateway.gateway.backends.discovery.finder import ReplicaFinder
from strowger_gateway.gateway.backends.gauges.poller import GaugePoller
from strowger_gateway.gateway.backends.gauges.readings import ReplicaReadings
from strowger_gateway.gateway.config.schema.config import Config
from strowger_gateway.gateway.observability.telemetry.process_metrics import ProcessMetrics


class ReplicaWatch:
    """Finds and polls replicas, and sends what it finds to the serving processes.

    `prepare` the first configuration and each later one, and `run` what `works` returns.
    """

    def __init__(self, metrics: ProcessMetrics) -> None:
        crashed = metrics.internal_errors.count
        self._finder = ReplicaFinder(crashed=crashed)
        self._gauges = GaugePoller(crashed=crashed)
        metrics.registry.register(self._finder)
        metrics.registry.register(self._gauges)

    @classmethod
    async def of(cls, config: Config, metrics: ProcessMetrics) -> "ReplicaWatch":
        """Return a watch with the replicas of a configuration. Raises as `prepare`."""
        made = cls(metrics)
        await made.prepare(config)
        return made

    @property
    def latest(self) -> Discovered:
        """The replicas that are known now."""
        return self._finder.latest

    def send_to(
        self,
        replicas: Callable[[Discovered], None],
        readings: Callable[[ReplicaReadings], None],
    ) -> None:
        """Call these with each change, and with each reading."""
        self._finder.send, self._gauges.send = replicas, readings

    async def prepare(self, config: Config) -> None:
        """Find the replicas of a configuration. Raises as `ReplicaFinder.prepare`."""
        await self._finder.prepare(config)

    def works(
        self, config: Callable[[], Config]
    ) -> tuple[tuple[str, Callable[[], Awaitable[None]]], ...]:
        """What runs as long as the process, by name. config: the one in effect."""
        return (
            ("replica finder", lambda: self._finder.run(config)),
            ("replica gauges", lambda: self._gauges.run(config, lambda: self._finder.latest)),
        )

    async def close(self) -> None:
        """Stop looking for replicas."""
        await self._finder.close()
