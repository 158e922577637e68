"""A worker's part of a limit: what its leader has leased to it, and what it has used of that."""

from gateway.limits.messages import Use
from gateway.limits.window import NEVER, Entry, Seats, Window

IDLE_REPORTS = 10
"""Reports without a use, one every 0.1 s, after which an unused lease is given back."""


class LeasedWindow(Window):
    """A window whose room is a lease. The leader has what counts; here is what to report to it.

    room: of the lease. elsewhere: what no worker held when the leader last answered.
    """

    __slots__ = ("_idle", "_unreported")

    def __init__(self, limit: int, period: int) -> None:
        super().__init__(limit, period)
        self.room = 0
        self._unreported: list[Entry] = []
        self._idle = 0

    def resize(self, limit: int) -> None:
        """Change the limit: the leader changes the room."""
        room = self.room
        super().resize(limit)
        self.room = room

    def expire(self, at: int) -> None:
        """Nothing: uses expire at the leader."""
        self.due = NEVER

    def _keep(self, entry: Entry) -> None:
        """Report it once; until then, uses of the same time are added to it."""
        self._unreported.append(entry)

    def settle(self, entry: Entry, reserved: int, used: int, at: int) -> None:
        """What was not used of the reservation returns to the lease, unless it has expired."""
        if used > reserved:
            self.take(used - reserved, at)
        elif entry[0] > at:
            self._unreported.append([entry[0], used - reserved])
            self.room += reserved - used

    @property
    def unused(self) -> bool:
        """Whether there is neither a lease nor anything to report."""
        return not self.room and not self._unreported

    def reset(self, at: int) -> int:
        """At most a period: the leader knows it exactly."""
        return self.period

    def report(self, *, recalled: bool) -> tuple[tuple[Use, ...], int, int]:
        """What was used since the last report, what is given back, and what was overdrawn."""
        uses: dict[int, int] = {}
        for expires, amount in self._unreported:
            uses[expires] = uses.get(expires, 0) + amount
        self._unreported.clear()
        self.last_until = -1
        self._idle = 0 if uses else self._idle + 1
        room, returned, overdrawn = self.room, 0, 0
        if room < 0:
            overdrawn, self.room = -room, 0
        elif room and (recalled or self._idle >= IDLE_REPORTS):
            returned, self.room = room, 0
        used = tuple([(expires, amount) for expires, amount in uses.items() if amount])
        return used, returned, overdrawn


class LeasedSeats(Seats):
    """Seats that the leader has leased. room: those that are free; leased: all of them."""

    __slots__ = ("_free", "_idle", "leased")

    def __init__(self, limit: int) -> None:
        super().__init__(limit)
        self.room = self.leased = 0
        self._free = 0
        self._idle = 0

    @property
    def unused(self) -> bool:
        """Whether this process holds no lease."""
        return not self.leased

    def add(self, amount: int) -> None:
        """Add to the lease."""
        self.room += amount
        self.leased += amount

    def resize(self, limit: int) -> None:
        """Change the limit: the leader changes the room."""
        self.limit = limit

    def report(self, *, recalled: bool) -> int:
        """The free seats that are given back."""
        room: int = self.room
        self._idle = self._idle + 1 if room == self._free else 0
        self._free = room
        if room > 0 and (recalled or self._idle >= IDLE_REPORTS):
            self.room = 0
            self._free = 0
            self.leased -= room
            return room
        return 0
