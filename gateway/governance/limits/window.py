"""One limited quantity: how much of it was used in a sliding window, and how many run at once."""

from bisect import bisect_left
from collections import deque
from operator import itemgetter
from typing import Final

from strowger_gateway.gateway.governance.leases.pool import Loan

PIECES: Final = 1024
"""Entries of a window with a large limit: each use counts up to a 1024th of the period longer."""

Entry = list[int]
"""When uses stop to count (nanoseconds; 0 once they have), and their amount.

The amount of a window's newest entry is known after `note`: until then, it is in `room` alone.
"""

_expiry = itemgetter(0)


class Window:
    """How much of a quantity was used in the last `period` nanoseconds, in integers.

    A use counts from the moment it is taken until a whole period later, so no span of that length
    ever holds more than the limit. The window slides, so a limit never resets all at once.
    A use is taken before its true amount is known, and corrected by `settle`.

    limit: the most that a period may hold. room: what can still be taken; negative if requests
    used more than they had reserved. elsewhere: what other processes could take.
    running: what running requests have reserved; they give back what they do not use.
    loans: what is lent to workers, by their numbers.
    last: the newest entry; uses until `last_until` are part of it.

    A request changes `room` and nothing else, if its uses are part of the newest entry. All other
    changes of the room go through `change`, so the entry's amount can be computed when it is read.
    """

    __slots__ = (
        "_entries",
        "_grain",
        "_noted",
        "elsewhere",
        "last",
        "last_until",
        "limit",
        "loans",
        "period",
        "room",
        "running",
    )

    def __init__(self, limit: int, period: int) -> None:
        """period: nanoseconds. With at most PIECES as a limit, every use counts exactly as long."""
        self.limit = self.room = self._noted = limit
        self.period = period
        self.elsewhere = self.running = 0
        self.loans: dict[int, Loan] = {}
        self.last: Entry = []
        self.last_until = -1
        self._grain = 1 if limit <= PIECES else period // PIECES
        self._entries: deque[Entry] = deque()

    def resize(self, limit: int) -> None:
        """Change the limit; what was used still counts."""
        self.change(limit - self.limit)
        self._rescale(limit)

    def _rescale(self, limit: int) -> None:
        self.limit = limit
        self.last_until = -1
        self._grain = 1 if limit <= PIECES else self.period // PIECES

    def change(self, amount: int) -> None:
        """Change the room for another reason than uses of the newest entry."""
        self.room += amount
        self._noted += amount

    def note(self) -> None:
        """Bring the amount of the newest entry up to date."""
        if self.last:
            self.last[1] += self._noted - self.room
        self._noted = self.room

    def expire(self, at: int) -> bool:
        """Free what stops to count at this time or before; return whether there was something."""
        entries = self._entries
        if not entries or entries[0][0] > at:
            return False
        self.note()
        while entries and entries[0][0] <= at:
            entry = entries.popleft()
            self.change(entry[1])
            entry[0] = 0
        if not entries:
            self.last_until = -1
            self.last = []
        return True

    def take(self, amount: int, at: int) -> Entry:
        """Use an amount from now on, whether or not there is room for it."""
        entry = self.entry(at)
        self.room -= amount
        return entry

    def entry(self, at: int) -> Entry:
        """The entry of uses that begin now, which is the newest: take them from `room`.

        A clock that steps back makes uses count longer, never shorter.
        """
        if at > self.last_until:
            self.expire(at)
            self.note()
            grain = self._grain
            until = self.last_until = -(-at // grain) * grain
            self.last = [until + self.period, 0]
            self._keep(self.last)
        return self.last

    def end(self, at: int) -> int:
        """When a use that begins now stops to count, nanoseconds."""
        return -(-at // self._grain) * self._grain + self.period

    def _keep(self, entry: Entry) -> None:
        """Remember a new entry, which ends later than all others."""
        self._entries.append(entry)

    def free(self, entry: Entry, amount: int, at: int) -> None:
        """Free a part of a use; of the newest entry, adding to `room` does the same."""
        if entry[0] > at:
            entry[1] -= amount
            self.change(amount)
        else:
            self.free_late(entry, amount, at)

    def free_late(self, entry: Entry, amount: int, at: int) -> None:
        """Free a part of a use whose entry is closed: it has stopped to count."""

    def wait(self, amount: int, at: int) -> int | None:
        """Nanoseconds until there is room if nothing else is taken; `None`: there never is.

        If what is lent is in the way, a period: it is used or comes back by then.
        """
        if amount > self.limit:
            return None
        room = self.room
        if room >= amount:
            return 0
        self.note()
        for expires, freed in self._entries:
            room += freed
            if room >= amount:
                return max(1, expires - at)
        return self.period

    @property
    def unused(self) -> bool:
        """Whether nothing counts, as of the last `expire`, and nothing is lent."""
        return self.room == self.limit

    def reset(self, at: int) -> int:
        """Nanoseconds until everything is free again if nothing else is taken."""
        return max(0, self._entries[-1][0] - at) if self._entries else 0

    def lend(self, amount: int) -> None:
        """Give an amount away, to be used elsewhere; it counts until it is given back."""
        self.change(-amount)

    def give_back(self, amount: int) -> None:
        """Take back what was lent and not used."""
        self.change(amount)

    def book(self, expires: int, amount: int, at: int) -> None:
        """Let a part of what was lent count as used until then.

        amount: negative to correct a use booked before; the worker still holds what it frees. What
        was not booked here counts as lent: a reload has begun this window after that use.
        """
        if expires <= at:
            self.change(amount)
            return
        entries = self._entries
        place = bisect_left(entries, expires, key=_expiry)
        known = place < len(entries) and entries[place][0] == expires
        if amount < 0:
            self.note()
            freed = min(-amount, entries[place][1]) if known else 0
            self.change(amount + freed)
            amount = -freed
        if known:
            entries[place][1] += amount
        elif amount:
            entries.insert(place, [expires, amount])

    @property
    def entries(self) -> tuple[Entry, ...]:
        """The uses that count, as of the last `expire`, the oldest first."""
        self.note()
        return tuple(self._entries)

    @property
    def used(self) -> int:
        """What counts, as of the last `expire`, without what is lent."""
        return sum(amount for _, amount in self.entries)


class ConcurrencySlots:
    """How many requests run at once. limit: the most; room: how many more may begin.

    running, loans: as of a Window, which it may take the place of (`Accounts`).
    """

    __slots__ = ("limit", "loans", "room", "running")

    def __init__(self, limit: int) -> None:
        self.limit = self.room = limit
        self.running = 0
        self.loans: dict[int, Loan] = {}

    def resize(self, limit: int) -> None:
        self.room += limit - self.limit
        self.limit = limit

    def lend(self, amount: int) -> None:
        """Give so many away, to be used elsewhere."""
        self.room -= amount

    def give_back(self, amount: int) -> None:
        """Take back what was lent: no request holds it."""
        self.room += amount

    def book(self, expires: int, amount: int, at: int) -> None:
        """A slot that was used is free again: it counts while a worker holds it."""
        self.room += amount

    @property
    def unused(self) -> bool:
        """Whether no request holds one, and none is lent."""
        return self.room == self.limit
