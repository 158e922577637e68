"""A worker's part of a limit: what its leader has leased to it, and what it has used of that."""

from collections.abc import Sequence
from operator import itemgetter

from strowger_gateway.gateway.governance.leases.messages import LeaseShare, LeaseUse, Place
from strowger_gateway.gateway.governance.leases.worker import IDLE_REPORTS
from strowger_gateway.gateway.governance.limits.ledger import Account
from strowger_gateway.gateway.governance.limits.window import ConcurrencySlots, Entry, Window

_amount = itemgetter(1)


class LeasedWindow(Window):
    """A window whose room is a lease. The leader has what counts; here is what to report to it.

    An entry is closed once it was reported, unless it is the newest. It has its expiry twice: the
    first is 0 then, as of one that has expired.

    room: of the lease. elsewhere: what no worker held when the leader last answered.
    busy: parts with leases or something to report; this one is added as soon as there is something.
    told: what the leader knows of `running`.
    """

    __slots__ = ("_idle", "_unreported", "busy", "place", "told")

    def __init__(
        self, limit: int, period: int, place: Place, busy: "set[LeasedPart] | None" = None
    ) -> None:
        super().__init__(limit, period)
        self.change(-limit)
        self.place = place
        self.busy: set[LeasedPart] = set() if busy is None else busy
        self._unreported: list[Entry] = []
        self._idle = self.told = 0

    def add(self, share: LeaseShare) -> None:
        """Add to the lease."""
        self.change(share.amount)
        self.elsewhere = share.left

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
        self.busy.add(self)

    def is_idle(self, at: int) -> bool:
        """Whether nothing can happen here that this window is not added to `busy` for.

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

    def report(self, *, recalled: bool, age: int = 1) -> LeaseUse | None:
        """What happened since the last report, with what is given back: see LeasedQuantity."""
        self.note()
        uses: dict[int, int] = {}
        for entry in self._unreported:
            if entry[1]:
                uses[entry[2]] = uses.get(entry[2], 0) + entry[1]
            entry[0], entry[1] = entry[2] if entry is self.last else 0, 0
        self._unreported = [self.last] if self.last else []
        self._idle = 0 if uses else self._idle + age
        room, returned, overdrawn = self.room, 0, 0
        if room < 0:
            overdrawn = -room
        elif room and (recalled or self._idle >= IDLE_REPORTS):
            returned = room
        self.change(overdrawn - returned)
        # What returned to the lease comes first, because later uses have used it again.
        used = tuple(sorted([use for use in uses.items() if use[1]], key=_amount))
        told, self.told = self.told, self.running
        if not (used or returned or overdrawn or told != self.running):
            return None
        return LeaseUse(self.place, used, returned, overdrawn, self.running)


class LeasedSlots(ConcurrencySlots):
    """Slots that the leader has leased. room: those that are free; leased: all of them."""

    __slots__ = ("_free", "_idle", "leased", "place")

    def __init__(self, limit: int, place: Place) -> None:
        super().__init__(limit)
        self.place = place
        self.room = self.leased = 0
        self._free = 0
        self._idle = 0

    @property
    def unused(self) -> bool:
        """Whether this process holds no lease."""
        return not self.leased

    def is_idle(self, at: int) -> bool:
        return self.unused

    def add(self, share: LeaseShare) -> None:
        """Add to the lease."""
        self.room += share.amount
        self.leased += share.amount

    def resize(self, limit: int) -> None:
        """Change the limit: the leader changes the room."""
        self.limit = limit

    def report(self, *, recalled: bool, age: int = 1) -> LeaseUse | None:
        """The free slots that are given back: see LeasedQuantity."""
        room: int = self.room
        self._idle = self._idle + age if room == self._free else 0
        self._free = room
        if room <= 0 or not (recalled or self._idle >= IDLE_REPORTS):
            return None
        self.room = 0
        self._free = 0
        self.leased -= room
        return LeaseUse(self.place, returned=room)


LeasedPart = LeasedWindow | LeasedSlots


def leased_parts(account: Account) -> Sequence[LeasedPart]:
    """What is leased of an account; nothing, if this process has it all."""
    parts = (account.requests, account.tokens, account.slots)
    return [one for one in parts if isinstance(one, LeasedWindow | LeasedSlots)]
