"""The cache of one process: entries in memory or elsewhere, and requests that wait for each other.

Of equal requests at the same time, the first one calls the backend, and the others wait for it: a
`Flight`. It lands when the answer is complete, and leaves when requests find it in the store.
"""

import asyncio
from collections import Counter, OrderedDict
from collections.abc import Callable, Coroutine
from typing import Final, Literal

from strowger_gateway.gateway.config.schema.cache import CacheConfig
from strowger_gateway.gateway.config.schema.config import Config
from strowger_gateway.gateway.content.cache.counts import CacheCounts, StoreSize
from strowger_gateway.gateway.content.cache.key import model_of
from strowger_gateway.gateway.content.cache.remote_store import CacheUnavailable, RemoteStore
from strowger_gateway.gateway.platform.clock import now
from strowger_gateway.gateway.platform.eventloop.inline_task import in_task
from strowger_gateway.schemas.secret import Secret

ENTRY_BYTES: Final = 400
"""What an entry takes besides its data: its key, and its places in a dictionary."""

MOST_WRITES: Final = 64
"""Entries on their way to the store; further ones are not kept."""

Landing = bytes | Literal["failed", "alone"]
"""An entry; or the leader failed or left, and one that waits takes its place; or each of those that
wait goes on alone, because the answer is not for them."""

MOST_LEADERS: Final = 3
"""Leaders that a request waits for, one after the other, before it goes on alone: a backend that
fails is asked by all, as without a cache, and not by one after the other."""


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

    def configure(self, settings: CacheConfig, config: Config) -> None:
        """Use this generation's store. Raises InvalidConfig for an unusable address of Redis."""
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


class MemoryStore:
    """Entries in memory, at most `max_bytes`: those not used for the longest time leave first.

    bytes, evicted: how much there is, and how many entries left to make room.
    """

    def __init__(self, max_bytes: int, clock: Callable[[], float] = now) -> None:
        self.bytes = self.evicted = 0
        self._max_bytes = max_bytes
        self._clock = clock
        self._entries: OrderedDict[str, tuple[bytes, float]] = OrderedDict()

    def __len__(self) -> int:
        return len(self._entries)

    def resize(self, max_bytes: int) -> None:
        """Allow so many bytes from now on."""
        self._max_bytes = max_bytes
        self._make_room()

    def get(self, key: str) -> bytes | None:
        """Return an entry that has not expired."""
        found = self._entries.get(key)
        if found is None:
            return None
        data, until = found
        if until <= self._clock():
            self._drop(key)
            return None
        self._entries.move_to_end(key)
        return data

    def put(self, key: str, data: bytes, ttl_s: float) -> None:
        """Keep an entry, unless it is larger than the memory."""
        if key in self._entries:
            self._drop(key)
        if len(data) + ENTRY_BYTES > self._max_bytes:
            return
        self._entries[key] = data, self._clock() + ttl_s
        self.bytes += len(data) + ENTRY_BYTES
        self._make_room()

    def clear(self) -> None:
        """Forget all entries."""
        self._entries.clear()
        self.bytes = 0

    def clear_model(self, model: str) -> int:
        """Forget the entries of a model, "" for all; return how many."""
        if not model:
            count = len(self)
            self.clear()
            return count
        keys = [key for key in self._entries if model_of(key) == model]
        for key in keys:
            self._drop(key)
        return len(keys)

    def by_model(self) -> dict[str, int]:
        """Return how many entries there are, expired ones included."""
        return dict(Counter(map(model_of, self._entries)))

    def _make_room(self) -> None:
        while self.bytes > self._max_bytes:
            self._drop(next(iter(self._entries)))
            self.evicted += 1

    def _drop(self, key: str) -> None:
        data, _ = self._entries.pop(key)
        self.bytes -= len(data) + ENTRY_BYTES


class Flights:
    """Those of one process, by key."""

    def __init__(self) -> None:
        self._flights: dict[str, Flight] = {}

    def of(self, key: str) -> "Flight | None":
        """Return the one to wait for."""
        return self._flights.get(key)

    def begin(self, key: str) -> "Flight":
        return Flight(self._flights, key)


class Flight:
    """One call of a backend. It lands once."""

    __slots__ = ("_flights", "_key", "_landed", "_landing")

    def __init__(self, flights: "dict[str, Flight]", key: str) -> None:
        self._landing: Landing | None = None
        self._landed: asyncio.Event | None = None
        """Created by the first that waits: most flights are awaited by none."""
        self._flights = flights
        self._key = key
        flights[key] = self

    async def landing(self, within_s: float) -> Landing | None:
        """Wait for the landing; `None` if there is none in time."""
        if self._landing is None:
            await in_task()
        if self._landing is None:
            if self._landed is None:
                self._landed = asyncio.Event()
            try:
                async with asyncio.timeout(within_s):
                    await self._landed.wait()
            except TimeoutError:
                return self._landing
        return self._landing

    def land(self, landing: Landing, *, stays: bool = False) -> None:
        """Wake all that wait. stays: until `leave`, so that requests find what is being written."""
        if self._landing is None:
            self._landing = landing
            if self._landed is not None:
                self._landed.set()
        if not stays:
            self.leave()

    def leave(self) -> None:
        if self._flights.get(self._key) is self:
            del self._flights[self._key]


async def _put(
    store: RemoteStore, key: str, data: bytes, ttl_s: float, done: Callable[[], None]
) -> None:
    try:
        await store.put(key, data, ttl_s)
    except CacheUnavailable:
        return  # counted and logged by the store
    finally:
        done()
