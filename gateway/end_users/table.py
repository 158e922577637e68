"""The end users that have accounts of their own now, at most so many per key and in all.

The accounts themselves are created by the rules; what is bounded here is how many names they get.
"""

from collections import OrderedDict
from collections.abc import Callable
from hashlib import sha256
from itertools import islice, takewhile
from time import monotonic_ns
from typing import Final

KEYS_IN_ALL: Final = 10
"""All keys together have as many end users as so many keys may have."""

OTHERS: Final = "others"
"""The account that end users beyond the bound share. No hash is spelled so."""

_MOST_FORGOTTEN: Final = 64
"""Idle end users that one new one replaces at most, so that no request waits for a long sweep."""


class _EndUser:
    """name: of its account. seen: when its last request began, nanoseconds of the clock."""

    __slots__ = ("name", "seen")

    def __init__(self, name: str, seen: int) -> None:
        self.name = name
        self.seen = seen


class EndUserTable:
    """Names end users of keys. One that has sent nothing for `idle` nanoseconds is forgotten.

    An account is named by a hash, because Redis and records keep it. A key whose table is full
    takes no place from other keys, until ten keys are full.

    most: end users of one key.
    """

    def __init__(
        self, most: int = 1, idle: int = 0, clock: Callable[[], int] = monotonic_ns
    ) -> None:
        """clock: nanoseconds."""
        self.most = most
        self.idle = idle
        self._clock = clock
        self._known: OrderedDict[tuple[str, str], _EndUser] = OrderedDict()
        self._of_key: dict[str, int] = {}

    def __len__(self) -> int:
        """How many have a name of their own."""
        return len(self._known)

    def name(self, key: str, end_user: str) -> str:
        """Name the account of a key's end user: a hash, or OTHERS beyond the bound."""
        place, at = (key, end_user), self._clock()
        found = self._known.get(place)
        if found is not None:
            found.seen = at
            self._known.move_to_end(place)
            return found.name
        self._forget(at)
        count = self._of_key.get(key, 0)
        if count >= self.most or len(self._known) >= self.most * KEYS_IN_ALL:
            return OTHERS
        self._of_key[key] = count + 1
        known = self._known[place] = _EndUser(hashed(end_user), at)
        return known.name

    def would_name(self, key: str, end_user: str) -> str:
        """What `name` would return now, without that anything changes."""
        found = self._known.get((key, end_user))
        if found is not None:
            return found.name
        idle = self._idle(self._clock())
        count = self._of_key.get(key, 0) - sum(place[0] == key for place in idle)
        room = count < self.most and len(self._known) - len(idle) < self.most * KEYS_IN_ALL
        return hashed(end_user) if room else OTHERS

    def _idle(self, at: int) -> list[tuple[str, str]]:
        """Those that `_forget` would forget: they come first."""
        before = at - self.idle
        first = islice(self._known.items(), _MOST_FORGOTTEN)
        return [place for place, _ in takewhile(lambda one: one[1].seen <= before, first)]

    def _forget(self, at: int) -> None:
        """Forget those that are idle."""
        for place in self._idle(at):
            del self._known[place]
            left = self._of_key[place[0]] - 1
            if left:
                self._of_key[place[0]] = left
            else:
                del self._of_key[place[0]]


def hashed(end_user: str) -> str:
    """Return the first 32 hexadecimal digits of the SHA-256 of an end user's text."""
    return sha256(end_user.encode("utf-8", "surrogatepass")).hexdigest()[:32]
