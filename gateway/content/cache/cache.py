"""The cache of one process: its store, the requests that wait for each other, and its counts."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Final

from strowger_gateway.gateway.config.schema.config import Config
from strowger_gateway.gateway.content.cache.counts import CacheCounts, StoreSize
from strowger_gateway.gateway.content.cache.flights import Flights
from strowger_gateway.gateway.content.cache.rules import CacheRules
from strowger_gateway.gateway.content.cache.stores import CacheUnavailable, MemoryStore, RemoteStore
from strowger_gateway.schemas.secret import Secret

MOST_WRITES: Final = 64
"""Entries on their way to the store; further ones are not kept."""


class AnswerCache:
    """It outlives reloads; each generation has rules of its own.

    memory: of this process; empty if entries are in `remote`.
    """

    def __init__(self) -> None:
        self.counts = CacheCounts()
        self.flights = Flights()
        self.memory = MemoryStore(0)
        self.remote: RemoteStore | None = None
        self._where: Secret | None = None
        self._running: set[asyncio.Task[None]] = set()
        """Writes, and the ends of former stores."""
        self._failed = 0
        """Uses of former stores, and writes that were too many."""

    def configure(self, rules: CacheRules, config: Config) -> None:
        """Use this generation's store. Raises InvalidConfig for an unusable address of Redis."""
        settings = rules.config
        if settings.store == "memory":
            self._replace(None)
            self._where = None
            self.memory.resize(settings.max_bytes)
            return
        url = config.store.redis_url
        assert url is not None, "checked"
        if url != self._where:
            from strowger_gateway.gateway.content.cache.redis_store import (
                RedisStore,  # late: only with Redis
            )

            self._replace(RedisStore(url))
            self._where = url
            self.memory.clear()
            self.memory.resize(0)

    def size(self) -> StoreSize:
        """What this process keeps."""
        memory = self.memory
        return StoreSize(
            bytes=memory.bytes,
            entries=len(memory),
            evicted=memory.evicted,
            failed=self._failed + (0 if self.remote is None else self.remote.failed),
        )

    def put(self, key: str, data: bytes, ttl_s: float, done: Callable[[], None]) -> None:
        """Keep an entry, in the background if not in memory. done: called afterwards."""
        if self.remote is None:
            self.memory.put(key, data, ttl_s)
            done()
        elif len(self._running) >= MOST_WRITES:
            self._failed += 1
            done()
        else:
            self._run(_put(self.remote, key, data, ttl_s, done))

    async def close(self) -> None:
        """End writes, and close the store."""
        for task in self._running:
            task.cancel()
        await asyncio.gather(*self._running, return_exceptions=True)
        if self.remote is not None:
            await self.remote.aclose()
        self.memory.clear()

    def _replace(self, remote: RemoteStore | None) -> None:
        former, self.remote = self.remote, remote
        if former is not None:
            self._failed += former.failed
            self._run(former.aclose())

    def _run(self, work: Coroutine[None, None, None]) -> None:
        task = asyncio.create_task(work)
        self._running.add(task)
        task.add_done_callback(self._running.discard)


async def _put(
    store: RemoteStore, key: str, data: bytes, ttl_s: float, done: Callable[[], None]
) -> None:
    try:
        await store.put(key, data, ttl_s)
    except CacheUnavailable:
        return  # counted and logged by the store
    finally:
        done()
