"""Everything with a deadline, held by one timer."""

import asyncio
from collections.abc import Callable
from typing import Protocol

RESOLUTION_S = 0.02
"""Sweeps are at least this far apart, so an expiry is late by at most as much."""

_NEVER = float("inf")


class Expiring(Protocol):
    """Something that waits. `by` is loop time; it may change while not waiting."""

    by: float

    def expire(self) -> None: ...


class Deadlines:
    """What waits now. The timer runs only up to the earliest deadline, and not when idle.

    Adding and discarding cost a set operation: deadlines mostly grow, so the timer is rarely
    moved, and an item that was discarded leaves it to find nothing.
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
        """Let go of the timer if nothing waits."""
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
        # uvloop rounds its timers to the millisecond and may come that much too early
        overdue = [item for item in self._waiting if item.by <= now + 0.001]
        self._waiting.difference_update(overdue)
        for item in overdue:
            item.expire()
        if self._waiting:
            earliest = min(item.by for item in self._waiting)
            if earliest < self._at:
                self._arm(max(earliest, now + RESOLUTION_S))
