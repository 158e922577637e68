"""Keep the responses of all keys within one bound, and off the last bytes of the disk.

The key that has the most makes room, as each makes room for itself within its own bound: a key that
stores little keeps what it has, whatever the others store, and however many they are.
"""

from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from strowger_gateway.gateway.platform.clock import now
from strowger_gateway.gateway.storage.sql.errors import StoreFull
from strowger_gateway.gateway.storage.sql.response_rows import ResponseRows, StoredResponse

READ_AGAIN_S: Final = 10.0
"""Interval at which the sum is read that all gateways on the database share."""

_STEP: Final = 0.01
"""Share of the bound that is freed at least: one search makes room for many responses."""

_TOTAL: Final = "the responses of all keys have reached responses.max_total_bytes"

_MOST_KEYS: Final = 16
"""Keys of which conversations are deleted for one batch of responses."""

_INDEXED: Final = 1.25
"""Bytes on the disk per byte of a response, with its indexes and half-empty pages."""


class RoomBounds(NamedTuple):
    """most: bytes of all responses. spare: bytes of the disk that are left to others."""

    most: int
    spare: int


class ResponseRoom:
    """Used in one thread. The bound is exceeded by what is stored within READ_AGAIN_S elsewhere."""

    def __init__(
        self,
        rows: ResponseRows,
        bounds: Callable[[], RoomBounds],
        clock: Callable[[], float] = now,
    ) -> None:
        """bounds: returns those of the configuration in force. clock: seconds."""
        self._rows = rows
        self._bounds = bounds
        self._clock = clock
        self._total = 0
        self._read_at: float | None = None

    def make(self, batch: Sequence[StoredResponse]) -> None:
        """Make room for a batch before it is written. Blocks.

        Raises StoreFull if there is none, StoreUnavailable.
        """
        bounds, size = self._bounds(), sum([row.bytes for row in batch])
        if size > bounds.most:
            raise StoreFull(_TOTAL)
        at = self._clock()
        near = self._total + size > bounds.most
        if self._read_at is None or near or not 0 <= at - self._read_at < READ_AGAIN_S:
            self._total, self._read_at = self._rows.total(), at
        kept = {row.root for row in batch}
        missing = self._total + size - bounds.most
        if missing > 0 and not self._free(max(missing, int(bounds.most * _STEP)), missing, kept):
            raise StoreFull(_TOTAL)
        self._check_disk(int(size * _INDEXED), bounds, kept)
        self._total += size

    def _check_disk(self, size: int, bounds: RoomBounds, kept: set[str]) -> None:
        """Without room on the disk, responses only replace others."""
        found = self._rows.room()
        if found is None:
            return
        free, reusable = found
        if free - bounds.spare >= size or reusable >= size:
            return
        if not self._free(max(size, int(self._total * _STEP)), size, kept):
            raise StoreFull("the disk has no more than store.min_free_bytes left")

    def _free(self, wanted: int, needed: int, kept: set[str]) -> bool:
        """Free some room; return whether it is what is needed at least."""
        freed = 0
        for _ in range(_MOST_KEYS):
            removed = self._rows.free_up(wanted - freed, kept)
            freed += removed
            self._total -= removed
            if not removed or freed >= wanted:
                break
        return freed >= needed
