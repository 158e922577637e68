"""The engines of other machines as they are found: each change of an address becomes a reload."""

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

from strowger_gateway.gateway.backends.discovery.setup import watch_of
from strowger_gateway.gateway.backends.discovery.watch import Watch
from strowger_gateway.gateway.config.remote_engines.replicas import with_replicas
from strowger_gateway.gateway.config.schema.config import Config
from strowger_gateway.gateway.config.schema.discovery import Discover

_log = logging.getLogger("strowger")

FIRST_S = 5.0
"""Seconds for the first look-ups at start; the gateway then starts without those that are late."""

SETTLE_S = 0.2
"""Seconds after a change in which further ones are taken along."""

CHECK_S = 1.0
"""Interval between checks whether the configuration has other sources."""


class Reloading(Protocol):
    """declared: the configuration as its file has it, before replicas are put in."""

    @property
    def declared(self) -> Config: ...

    def expand(self, declared: Config, expanded: Callable[[Config], Config]) -> None:
        """From now on, expand each configuration that is read."""
        ...

    async def use_addresses(self) -> bool:
        """Put `expanded(declared)` into effect; false if it could not be."""
        ...


class EngineAddresses:
    """Watches the sources of `engines.discover`, in one process for the whole gateway."""

    def __init__(self, declared: Config) -> None:
        """declared: the configuration as its file has it."""
        self._declared = declared
        self._watches: dict[Discover, Watch] = {}
        self._tasks: dict[Discover, asyncio.Task[None]] = {}
        self._changed = asyncio.Event()

    def expanded(self, config: Config) -> Config:
        """Return the configuration with the replicas that are known now."""
        return with_replicas(config, self._found(config))

    async def look(self) -> None:
        """Look up every source once, before the gateway serves. Raises InvalidConfig."""
        self._add(self._declared)
        late = [asyncio.ensure_future(watch.look_up()) for watch in self._watches.values()]
        if late:
            _, pending = await asyncio.wait(late, timeout=FIRST_S)
            for one in pending:
                one.cancel()

    def attach(self, reloading: Reloading) -> None:
        """Have reloads put replicas in."""
        reloading.expand(self._declared, self.expanded)

    async def follow(self, reloading: Reloading) -> None:
        """Watch the sources of the configuration in force, and apply changes, until cancelled."""
        applied = self._found(reloading.declared)
        try:
            while True:
                self._sync(reloading.declared)
                try:
                    async with asyncio.timeout(CHECK_S):
                        await self._changed.wait()
                    await asyncio.sleep(SETTLE_S)
                except TimeoutError:
                    pass
                self._changed.clear()
                found = self._found(reloading.declared)
                if found != applied and await reloading.use_addresses():
                    applied = found
        finally:
            for task in self._tasks.values():
                task.cancel()
            self._tasks.clear()

    def _found(self, config: Config) -> Mapping[str, Sequence[str]]:
        """Return the known addresses by provider."""
        return {
            provider: tuple(one.text for one in watch.endpoints)
            for provider, discover in _sources(config).items()
            if (watch := self._watches.get(discover)) is not None
        }

    def _add(self, config: Config) -> None:
        """Raises InvalidConfig."""
        for discover in _sources(config).values():
            if discover not in self._watches:
                watch = self._watches[discover] = watch_of(discover)
                watch.subscribe(lambda _: self._changed.set())

    def _sync(self, config: Config) -> None:
        """Watch what the configuration names, and nothing else."""
        self._add(config)
        wanted = set(_sources(config).values())
        for discover in [one for one in self._watches if one not in wanted]:
            del self._watches[discover]
            if (task := self._tasks.pop(discover, None)) is not None:
                task.cancel()
        for discover, watch in self._watches.items():
            if discover not in self._tasks:
                self._tasks[discover] = asyncio.create_task(watch.run())


async def found_engines(declared: Config) -> tuple[Config, EngineAddresses]:
    """Return the configuration with the replicas that are found now, and what watches them.

    Raises InvalidConfig.
    """
    addresses = EngineAddresses(declared)
    await addresses.look()
    return addresses.expanded(declared), addresses


def _sources(config: Config) -> Mapping[str, Discover]:
    return {
        one.name: one.engines.discover
        for one in config.providers
        if one.engines is not None and one.engines.discover is not None and not one.replica_of
    }
