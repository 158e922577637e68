"""Find the replicas of a configuration, in the leader, and send what is found to all processes."""

import asyncio
import contextlib
from collections.abc import Callable, Iterable, Iterator

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from strowger_gateway.gateway.backends.discovery.discovered import Discovered, ReplicaSet
from strowger_gateway.gateway.backends.discovery.setup import watch_of
from strowger_gateway.gateway.backends.discovery.watch import Watch
from strowger_gateway.gateway.config.schema.config import Config
from strowger_gateway.gateway.config.schema.discovery import DiscoverReplicas
from strowger_gateway.gateway.platform.background import OnCrash, ignore_crash, keep_running
from strowger_gateway.gateway.platform.clock import now

FIRST_S = 3.0
"""How long the start, or a reload, waits for the first look-ups of new sources."""

TICK_S = 0.1
"""Interval between checks for changes: those of several sources are sent together."""

KEPT_S = 120.0
"""How long a source is watched that no configuration in effect has: a reload may be preparing."""


class ReplicaFinder(Collector):
    """The watches of all `discover` sections. send: called with each change; set it before `run`.

    latest: what is known now.
    """

    def __init__(self, *, crashed: OnCrash = ignore_crash, first_s: float = FIRST_S) -> None:
        self.send: Callable[[Discovered], None] = _ignore
        self.latest = Discovered()
        self._crashed = crashed
        self._first_s = first_s
        self._watches: dict[DiscoverReplicas, _Watched] = {}

    async def prepare(self, config: Config) -> None:
        """Watch the sources of a configuration, and wait for the first answers of new ones.

        The wait is bounded; a source that has not answered by then has no replicas yet. Raises
        InvalidConfig without a package that a source needs.
        """
        new = [one for one in dict.fromkeys(sections(config)) if one not in self._watches]
        for section in dict.fromkeys(sections(config)):
            if section not in self._watches:
                self._watches[section] = _Watched(watch_of(section.addresses), self._crashed)
            self._watches[section].wanted_at = now()
        if new:
            waits = [self._watches[one].first.wait() for one in new]
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(self._first_s):
                    await asyncio.gather(*waits)
            self._publish()

    async def run(self, current: Callable[[], Config]) -> None:
        """Send changes until cancelled. current: the configuration in effect."""
        while True:
            await asyncio.sleep(TICK_S)
            if not self._watches:
                continue
            wanted = frozenset(sections(current()))
            for section, one in tuple(self._watches.items()):
                if section in wanted:
                    one.wanted_at = now()
                elif now() - one.wanted_at > KEPT_S:
                    one.close()
                    del self._watches[section]
            self._publish()

    async def close(self) -> None:
        """Stop all watches."""
        tasks = [one.close() for one in self._watches.values()]
        await asyncio.gather(*tasks, return_exceptions=True)

    def collect(self) -> Iterable[Metric]:
        if not self._watches:
            return
        found = [one.watch.status for one in self._watches.values()]
        replicas = GaugeMetricFamily(
            "strowger_discovered_replicas",
            "Replicas of a source of backends[].discover.",
            labels=("source",),
        )
        failing = GaugeMetricFamily(
            "strowger_discovery_failing_seconds",
            "Seconds since a source was last looked up, while that fails; otherwise 0.",
            labels=("source",),
        )
        refused = GaugeMetricFamily(
            "strowger_discovery_refused_addresses",
            "Addresses of a source that are not used; the log has the reasons.",
            labels=("source",),
        )
        failures = CounterMetricFamily(
            "strowger_discovery_failures",
            "Look-ups of a source that failed.",
            labels=("source",),
        )
        for one in found:
            replicas.add_metric((one.source,), len(one.endpoints))
            failing.add_metric((one.source,), one.failing_s)
            refused.add_metric((one.source,), len(one.refused))
            failures.add_metric((one.source,), one.failures)
        yield from (replicas, failing, refused, failures)

    def _publish(self) -> None:
        found = Discovered(
            sets=tuple(_set_of(section, one.watch) for section, one in self._watches.items())
        )
        if found != self.latest:
            self.latest = found
            self.send(found)


class _Watched:
    """One watch that runs.

    first: the first look-up has ended. wanted_at: when a configuration last had its section.
    """

    def __init__(self, watch: Watch, crashed: OnCrash) -> None:
        self.watch = watch
        self.first = asyncio.Event()
        self.wanted_at = now()
        self._task = asyncio.create_task(keep_running("discovery", self._run, crashed))

    def close(self) -> asyncio.Task[None]:
        self._task.cancel()
        return self._task

    async def _run(self) -> None:
        while True:
            try:
                wait_s = await self.watch.look_up()
            finally:
                self.first.set()
            await asyncio.sleep(wait_s)


def sections(config: Config) -> Iterator[DiscoverReplicas]:
    """Yield the `discover` sections of a configuration; equal ones share a watch."""
    for model in config.models:
        for ref in model.backends:
            if ref.discover is not None:
                yield ref.discover


def _set_of(section: DiscoverReplicas, watch: Watch) -> ReplicaSet:
    found = watch.status
    return ReplicaSet(
        discover=section,
        source=found.source,
        endpoints=found.endpoints,
        known=found.known,
        problem=found.problem,
        refused=found.refused,
    )


def _ignore(found: Discovered) -> None:
    """The default of `send`."""
