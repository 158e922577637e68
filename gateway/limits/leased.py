"""A worker's part of a limit: what its leader has leased to it, and what it has used of that."""

from operator import itemgetter

from gateway.limits.ledger import Account
from gateway.limits.messages import Use
from gateway.limits.window import Entry, Seats, Window

IDLE_REPORTS = 10
"""Reports without a use, one every 0.1 s, after which an unused lease is given back."""

_amount = itemgetter(1)


class LeasedWindow(Window):
    """A window whose room is a lease. The leader has what counts; here is what to report to it.

    An entry is closed once it was reported, unless it is the newest. It has its expiry twice: the
    first is 0 then, as of one that has expired.

    room: of the lease. elsewhere: what no worker held when the leader last answered.
    account: that it is part of. busy: accounts with leases or something to report; this one's is
             added as soon as there is something.
    told: what the leader knows of `running`.
    """

    __slots__ = ("_idle", "_unreported", "account", "busy", "told")

    def __init__(self, limit: int, period: int, busy: set[Account] | None = None) -> None:
        super().__init__(limit, period)
        self.change(-limit)
        self.account: Account | None = None
        self.busy = set[Account]() if busy is None else busy
        self._unreported: list[Entry] = []
        self._idle = self.told = 0

    def resize(self, limit: int) -> None:
        """Change the limit: the leader changes the room."""
        self._rescale(limit)

    def expire(self, at: int) -> bool:
        """Nothing: uses expire at the leader."""
        return False

    def _keep(self, entry: Entry) -> None:
        """Report it; until then, uses of the same time are added to it."""
        entry.append(entry[0])
        self._unreported.append(entry)
        self._wake()

    def free_late(self, entry: Entry, amount: int, at: int) -> None:
        """Return a part of a reported use to the lease, and report that, unless it has expired."""
        expires = entry[2]
        if expires > at:
            self._unreported.append([expires, -amount, expires])
            self.change(amount)
            self._wake()

    @property
    def unused(self) -> bool:
        """Whether there is neither a lease, nor a running request, nor anything to report."""
        self.note()
        if self.room or self.running or self.told:
            return False
        return not any(amount for _, amount, _ in self._unreported)

    def reset(self, at: int) -> int:
        """At most a period: the leader knows it exactly."""
        return self.period

    def _wake(self) -> None:
        if self.account is not None:
            self.busy.add(self.account)

    def rest(self, at: int) -> bool:
        """Whether nothing can happen here that the account is not added to `busy` for.

        The newest entry is closed: nothing is added to it any more, because its time is over, and
        what a request frees later is reported as of an earlier one.
        """
        if not self.unused:
            return False
        if self.last:
            if at <= self.last[2] - self.period:
                return False
            self.last[0] = 0
            self.last, self._unreported = [], []
        return True

    def report(self, *, recalled: bool) -> tuple[tuple[Use, ...], int, int]:
        """What was used since the last report, what is given back, and what was overdrawn."""
        self.note()
        uses: dict[int, int] = {}
        for entry in self._unreported:
            if entry[1]:
                uses[entry[2]] = uses.get(entry[2], 0) + entry[1]
            entry[0], entry[1] = entry[2] if entry is self.last else 0, 0
        self._unreported = [self.last] if self.last else []
        self._idle = 0 if uses else self._idle + 1
        room, returned, overdrawn = self.room, 0, 0
        if room < 0:
            overdrawn = -room
        elif room and (recalled or self._idle >= IDLE_REPORTS):
            returned = room
        self.change(overdrawn - returned)
        # What returned to the lease comes first, because later uses have used it again.
        used = tuple(sorted([use for use in uses.items() if use[1]], key=_amount))
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
