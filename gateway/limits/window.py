"""One limited quantity: how much of it was used in a sliding window, and how many run at once."""

from bisect import bisect_left
from collections import deque
from operator import itemgetter
from typing import Final

NEVER: Final = 1 << 62
"""Later than every time of the clock, nanoseconds."""

PIECES: Final = 1024
"""Entries of a window with a large limit: each use counts up to a 1024th of the period longer."""

Entry = list[int]
"""When a use stops to count (nanoseconds; 0 once it has), and its amount."""

_expiry = itemgetter(0)


class Window:
    """How much of a quantity was used in the last `period` nanoseconds, in integers.

    A use counts from the moment it is taken until a whole period later, so no span of that length
    ever holds more than the limit. The window slides, so a limit never resets all at once.
    A use is taken before its true amount is known, and corrected by `settle`.

    limit: the most that a period may hold. room: what can still be taken; negative if requests
    used more than they had reserved. elsewhere: what other processes could take.
    due: when the oldest use stops to count, or NEVER. last: the newest entry, to which uses until
    `last_until` are added: `take` is written out where every request passes.
    """

    __slots__ = (
        "_entries",
        "_grain",
        "due",
        "elsewhere",
        "last",
        "last_until",
        "limit",
        "period",
        "room",
    )

    def __init__(self, limit: int, period: int) -> None:
        """period: nanoseconds. With at most PIECES as a limit, every use counts exactly as long."""
        self.limit = self.room = limit
        self.period = period
        self.elsewhere = 0
        self.due = NEVER
        self.last: Entry = []
        self.last_until = -1
        self._grain = 1 if limit <= PIECES else period // PIECES
        self._entries: deque[Entry] = deque()

    def resize(self, limit: int) -> None:
        """Change the limit; what was used still counts."""
        self.room += limit - self.limit
        self.limit = limit
        self.last_until = -1
        self._grain = 1 if limit <= PIECES else self.period // PIECES

    def expire(self, at: int) -> None:
        """Free what stops to count at this time or before. Call it once `due` has come."""
        entries = self._entries
        while entries and entries[0][0] <= at:
            entry = entries.popleft()
            self.room += entry[1]
            entry[0] = 0
        if entries:
            self.due = entries[0][0]
        else:
            self.due, self.last_until = NEVER, -1

    def take(self, amount: int, at: int) -> Entry:
        """Use an amount from now on, whether or not there is room for it.

        A clock that steps back makes uses count longer, never shorter.
        """
        if at <= self.last_until:
            self.room -= amount
            entry = self.last
            entry[1] += amount
            return entry
        return self.open_entry(amount, at)

    def open_entry(self, amount: int, at: int) -> Entry:
        """See `take`; for a use later than `last_until`."""
        self.room -= amount
        grain = self._grain
        until = self.last_until = -(-at // grain) * grain
        entry = self.last = [until + self.period, amount]
        self._keep(entry)
        return entry

    def _keep(self, entry: Entry) -> None:
        """Remember a new entry, which ends later than all others."""
        self._entries.append(entry)
        if self.due == NEVER:
            self.due = entry[0]

    def settle(self, entry: Entry, reserved: int, used: int, at: int) -> None:
        """Replace what `take` had reserved by what was used; an excess counts from now on."""
        if used > reserved:
            self.take(used - reserved, at)
        elif entry[0]:
            entry[1] -= reserved - used
            self.room += reserved - used

    def wait(self, amount: int, at: int) -> int | None:
        """Nanoseconds until there is room if nothing else is taken; `None`: there never is.

        If what is lent is in the way, a period: it is used or comes back by then.
        """
        if amount > self.limit:
            return None
        room = self.room
        if room >= amount:
            return 0
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
        self.room -= amount

    def give_back(self, amount: int) -> None:
        """Take back what was lent and not used."""
        self.room += amount

    def book(self, expires: int, amount: int, at: int) -> None:
        """Let a part of what was lent count as used until then.

        amount: negative to correct a use booked before; its lender still holds what it frees.
        """
        if expires <= at:
            self.room += amount
            return
        entries = self._entries
        place = bisect_left(entries, expires, key=_expiry)
        if place < len(entries) and entries[place][0] == expires:
            entries[place][1] += amount
        else:
            entries.insert(place, [expires, amount])
        self.due = entries[0][0]

    @property
    def entries(self) -> tuple[Entry, ...]:
        """The uses that count, as of the last `expire`, the oldest first."""
        return tuple(self._entries)

    @property
    def used(self) -> int:
        """What counts, as of the last `expire`, without what is lent."""
        return sum(amount for _, amount in self._entries)


class Seats:
    """How many requests run at once. limit: the most; room: how many more may begin."""

    __slots__ = ("limit", "room")

    def __init__(self, limit: int) -> None:
        self.limit = self.room = limit

    def resize(self, limit: int) -> None:
        self.room += limit - self.limit
        self.limit = limit

    @property
    def unused(self) -> bool:
        """Whether no request holds one, and none is lent."""
        return self.room == self.limit
