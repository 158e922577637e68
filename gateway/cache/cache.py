"""The cache of one process: its store, the requests that wait for each other, and its counts."""

import asyncio
from collections.abc import Callable
from typing import Final

from gateway.cache.counts import CacheCounts, StoreSize
from gateway.cache.flights import Flights
from gateway.cache.rules import CacheRules
from gateway.cache.stores import AnswerStore, CacheUnavailable, MemoryStore
from gateway.config.schema.config import Config
from schemas.secret import Secret

MOST_WRITES: Final = 64
"""Entries on their way to the store; further ones are not kept."""


class AnswerCache:
    """It outlives reloads; each generation has rules of its own."""

    def __init__(self) -> None:
        self.counts = CacheCounts()
        self.flights = Flights()
        self.store: AnswerStore = MemoryStore(0)
        self._where: Secret | None = None
        self._writes: set[asyncio.Task[None]] = set()
        self._lost = 0

    def configure(self, rules: CacheRules, config: Config) -> None:
        """Use this generation's store. Raises InvalidConfig for an unusable address of Redis."""
        settings = rules.config
        if settings.store == "memory":
            if isinstance(self.store, MemoryStore):
                self.store.resize(settings.max_bytes)
            else:
                self._replace(MemoryStore(settings.max_bytes))
            self._where = None
            return
        url = config.store.redis_url
        assert url is not None, "checked"
        if url != self._where:
            from gateway.cache.redis_store import RedisStore  # late: only with Redis

            self._replace(RedisStore(url))
            self._where = url

    def size(self) -> StoreSize:
        """What this process keeps."""
        store = self.store
        if isinstance(store, MemoryStore):
            return StoreSize(bytes=store.bytes, entries=len(store), evicted=store.evicted)
        return StoreSize(failed=getattr(store, "failed", 0) + self._lost)

    def put(self, key: str, data: bytes, ttl_s: float, done: Callable[[], None]) -> None:
        """Write an entry in the background. done: called afterwards, however it went."""
        if len(self._writes) >= MOST_WRITES:
            self._lost += 1
            done()
            return
        task = asyncio.create_task(self._put(key, data, ttl_s, done))
        self._writes.add(task)
        task.add_done_callback(self._writes.discard)

    async def close(self) -> None:
        """End writes, and close the store."""
        for task in self._writes:
            task.cancel()
        await asyncio.gather(*self._writes, return_exceptions=True)
        await self.store.aclose()

    async def _put(self, key: str, data: bytes, ttl_s: float, done: Callable[[], None]) -> None:
        try:
            await self.store.put(key, data, ttl_s)
        except CacheUnavailable:
            return  # counted and logged by the store
        finally:
            done()

    def _replace(self, store: AnswerStore) -> None:
        former, self.store = self.store, store
        task = (
            asyncio.ensure_future(former.aclose()) if not isinstance(former, MemoryStore) else None
        )
        if task is not None:
            self._writes.add(task)
            task.add_done_callback(self._writes.discard)
