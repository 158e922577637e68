"""Sums over the last minute of what a key uses, as vendors count their limits."""

from collections import deque
from typing import Final

MINUTE_S: Final = 60.0
BUCKET_S: Final = 1.0
"""What is used within this time is one number, so that a busy key takes 61 of them."""


class Minute:
    """A sum over the last minute. Times are the clock's seconds, and never decrease."""

    __slots__ = ("_parts", "total")

    def __init__(self) -> None:
        self._parts: deque[tuple[float, int]] = deque()
        self.total = 0

    def add(self, at: float, count: int) -> None:
        """Count what is used now."""
        self._forget(at)
        self.total += count
        if self._parts and at - self._parts[-1][0] < BUCKET_S:
            begun, before = self._parts[-1]
            self._parts[-1] = begun, before + count
        else:
            self._parts.append((at, count))

    def room_in(self, at: float, most: float) -> float:
        """Return the seconds until the sum is below `most`; 0 if it is. Infinity if most is 0."""
        self._forget(at)
        left = self.total
        if left < most:
            return 0.0
        for begun, count in self._parts:
            left -= count
            if left < most:
                return begun + MINUTE_S + BUCKET_S - at
        return float("inf")

    def _forget(self, at: float) -> None:
        parts = self._parts
        while parts and at - parts[0][0] >= MINUTE_S + BUCKET_S:
            self.total -= parts.popleft()[1]
