"""What is known of one replica besides its breaker: when it came, and how busy others keep it."""

from typing import Final

NEWEST: Final = 0.5
"""The weight of a new reading in the estimate: our own requests arrive while it runs."""

LEAST_SHARE: Final = 0.1
"""Of a replica that has just come: the share of a whole one."""

REPLICA_MARK: Final = " @ "
"""In the key of a backend: separates the backend from the address of its replica."""


class Replica:
    """One address of a backend, shared by all models that it serves.

    address: HOST:PORT. joined_at: the clock's seconds; minus infinity if it was there at first.
    slow_start_s: how long its share grows. others: requests that it has from other clients than
    this gateway, an estimate.
    """

    __slots__ = ("_last", "address", "joined_at", "others", "slow_start_s")

    def __init__(
        self, address: str, *, joined_at: float = float("-inf"), slow_start_s: float = 0.0
    ) -> None:
        self.address = address
        self.joined_at = joined_at
        self.slow_start_s = slow_start_s
        self.others = self._last = 0.0

    def note(self, requests: float | None, busy: int) -> None:
        """A reading of the replica's own gauges. busy: requests of this gateway at that time.

        requests: that wait and run there; `None` if that is not known. The first reading with
        requests of others needs a second one to count: a reading that comes late includes requests
        of this gateway that have ended since, and would keep the next ones away for a second.
        """
        if requests is None:
            self.others = self._last = 0.0
            return
        newest, before = max(0.0, requests - busy), self._last
        self._last = newest
        self.others += NEWEST * ((newest if before >= 1.0 else min(newest, before)) - self.others)

    def share(self, now: float) -> float:
        """From LEAST_SHARE to 1: it grows evenly, so that cold caches and kernels get warm."""
        age = now - self.joined_at
        if age >= self.slow_start_s:
            return 1.0
        return max(LEAST_SHARE, age / self.slow_start_s)
