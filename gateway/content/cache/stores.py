"""Where entries are kept: the protocol, and the memory of one process."""

from collections import OrderedDict
from collections.abc import Callable
from typing import Final, Protocol

from strowger_gateway.gateway.platform.clock import now

ENTRY_BYTES: Final = 400
"""What an entry takes besides its data: its key, and its places in a dictionary."""


class CacheUnavailable(Exception):
    """Entries can be neither read nor written now."""


class RemoteStore(Protocol):
    """Entries by key, elsewhere. Methods raise CacheUnavailable if the store cannot be used.

    failed: how often it could not be used.
    """

    @property
    def failed(self) -> int: ...

    async def get(self, key: str) -> bytes | None: ...

    async def put(self, key: str, data: bytes, ttl_s: float) -> None: ...

    async def aclose(self) -> None: ...


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

    def _make_room(self) -> None:
        while self.bytes > self._max_bytes:
            self._drop(next(iter(self._entries)))
            self.evicted += 1

    def _drop(self, key: str) -> None:
        data, _ = self._entries.pop(key)
        self.bytes -= len(data) + ENTRY_BYTES
