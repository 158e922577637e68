"""How many replicas there should be, from what the engines say of their load. Without I/O."""

from collections.abc import Sequence
from math import ceil

from msgspec import Struct

from strowger_gateway.gateway.backends.placement.settings import Replicas

SLACK = 0.7
"""Share of the wanted load that remaining replicas may have after one is removed.

Below 1, so that replicas are not added again at once.
"""


class EngineLoad(Struct, frozen=True, kw_only=True):
    """Requests of one engine: those that it computes, and those in its queue."""

    running: int
    waiting: int


class Scaler:
    """Adds replicas after `grow_after_s` of too much load, removes one after `shrink_after_s`."""

    def __init__(self, settings: Replicas) -> None:
        self._settings = settings
        self._busy_since: float | None = None
        self._needed: int = 0
        self._idle_since: float | None = None

    def wanted(
        self, at: float, count: int, loads: Sequence[EngineLoad], *, whole: bool = True
    ) -> int:
        """Return how many replicas there should be.

        at:    seconds of a monotonic clock. count: replicas that there are, starting ones included.
        loads: of those that answered. whole: they are all; otherwise nothing is removed.
        """
        least, most = self._settings.min, self._settings.max
        if not least <= count <= most:
            self._busy_since = self._idle_since = None
            return min(max(count, least), most)
        needed = self._needed_for(count, loads)
        if needed > count:
            self._idle_since = None
            return self._grown(at, count, needed)
        self._busy_since = None
        if whole and count > least and self._enough(count - 1, loads):
            return self._shrunk(at, count)
        self._idle_since = None
        return count

    def _needed_for(self, count: int, loads: Sequence[EngineLoad]) -> int:
        """Queues count on their own: a small engine may be full below the load that is wanted."""
        waiting = sum(one.waiting for one in loads)
        busy = waiting + sum(one.running for one in loads)
        needed = ceil(busy / self._settings.requests_per_replica)
        if loads and waiting >= len(loads):
            needed = max(needed, count + 1)
        return min(needed, self._settings.max)

    def _enough(self, count: int, loads: Sequence[EngineLoad]) -> bool:
        busy = sum(one.running for one in loads)
        waiting = any(one.waiting for one in loads)
        return not waiting and busy <= SLACK * self._settings.requests_per_replica * count

    def _grown(self, at: float, count: int, needed: int) -> int:
        """Add as many as were needed all the time."""
        if self._busy_since is None:
            self._busy_since, self._needed = at, needed
        self._needed = min(self._needed, needed)
        if at - self._busy_since < self._settings.grow_after_s or self._needed <= count:
            return count
        self._busy_since = None
        return self._needed

    def _shrunk(self, at: float, count: int) -> int:
        if self._idle_since is None:
            self._idle_since = at
        if at - self._idle_since < self._settings.shrink_after_s:
            return count
        self._idle_since = at
        return count - 1
