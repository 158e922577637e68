"""Deadlines of one transport, all on one timer."""

import asyncio
from collections.abc import Callable
from typing import Protocol

RESOLUTION_S = 0.02
"""Minimum seconds between sweeps, so an expiry is late by at most this much."""

_NEVER = float("inf")


class Expiring(Protocol):
    """An item that waits. `by` is loop time; it may change while the item does not wait."""

    by: float

    def expire(self) -> None: ...


class Deadlines:
    """Items that wait. The timer runs up to the earliest deadline, and not when idle.

    Adding and discarding cost a set operation: deadlines mostly grow, so the timer is rarely
    moved, and for a discarded item it fires without effect.
    """

    __slots__ = ("_at", "_timer", "_waiting", "discard")

    def __init__(self) -> None:
        self._waiting: set[Expiring] = set()
        self.discard: Callable[[Expiring], None] = self._waiting.discard
        """Forget an item, which may be unknown."""
        self._at = _NEVER
        self._timer: asyncio.TimerHandle | None = None

    def add(self, item: Expiring) -> None:
        """Call `item.expire()` once at `item.by`, unless it is discarded before."""
        self._waiting.add(item)
        if item.by < self._at:
            self._arm(item.by)

    def rest(self) -> None:
        """Cancel the timer if nothing waits."""
        if self._timer is not None and not self._waiting:
            self._timer.cancel()
            self._timer, self._at = None, _NEVER

    def _arm(self, at: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._at = at
        self._timer = asyncio.get_running_loop().call_at(at, self._sweep)

    def _sweep(self) -> None:
        now = asyncio.get_running_loop().time()
        self._timer, self._at = None, _NEVER
        # uvloop rounds its timers to the millisecond and may fire that much too early
        overdue = [item for item in self._waiting if item.by <= now + 0.001]
        self._waiting.difference_update(overdue)
        for item in overdue:
            item.expire()
        if self._waiting:
            earliest = min(item.by for item in self._waiting)
            if earliest < self._at:
                self._arm(max(earliest, now + RESOLUTION_S))
