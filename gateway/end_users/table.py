"""The end users that have accounts of their own now, at most so many per key and in all.

The accounts themselves are created by the rules; what is bounded here is how many names they get.
"""

from collections import OrderedDict
from collections.abc import Callable
from hashlib import sha256
from itertools import islice
from time import monotonic_ns
from typing import Final

KEYS_IN_ALL: Final = 10
"""All keys together have as many end users as so many keys may have."""

OTHERS: Final = "others"
"""The account that end users beyond the bound share. No hash is spelled so."""

_MOST_FORGOTTEN: Final = 64
"""Idle end users that one new one replaces at most, so that no request waits for a long sweep."""

_Place = tuple[str, str]
"""A key, and the text of its end user."""


class _EndUser:
    """name: of its account. seen: when its last request began, nanoseconds of the clock."""

    __slots__ = ("name", "seen")

    def __init__(self, name: str, seen: int) -> None:
        self.name = name
        self.seen = seen


class EndUserTable:
    """Names end users of keys. One that has sent nothing for a while is forgotten.

    How long depends on the rules of its key, so a key whose rules have long periods does not
    lengthen the memory of others. An account is named by a hash, because Redis and records keep it.
    A key whose table is full takes no place from other keys, until ten keys are full.

    most: end users of one key.
    """

    def __init__(self, most: int = 1, clock: Callable[[], int] = monotonic_ns) -> None:
        """clock: nanoseconds."""
        self.most = most
        self._clock = clock
        self._known: dict[int, OrderedDict[_Place, _EndUser]] = {}
        self._of_key: dict[str, int] = {}
        self._count = 0

    def __len__(self) -> int:
        """How many have a name of their own."""
        return self._count

    def name(self, key: str, end_user: str, idle: int) -> str:
        """Name the account of a key's end user: a hash, or OTHERS beyond the bound.

        idle: nanoseconds without a request after which it is forgotten; one of the few periods that
        rules have.
        """
        place, at = (key, end_user), self._clock()
        alike = self._known.get(idle)
        if alike is None:
            alike = self._known[idle] = OrderedDict()
        found = alike.get(place)
        if found is not None:
            found.seen = at
            alike.move_to_end(place)
            return found.name
        found = self._moved(place, alike)
        if found is not None:
            found.seen = at
            return found.name
        self._forget(at)
        count = self._of_key.get(key, 0)
        if count >= self.most or self._count >= self.most * KEYS_IN_ALL:
            return OTHERS
        self._of_key[key] = count + 1
        self._count += 1
        known = alike[place] = _EndUser(hashed(end_user), at)
        return known.name

    def would_name(self, key: str, end_user: str) -> str:
        """What `name` would return now, without that anything changes."""
        for alike in self._known.values():
            found = alike.get((key, end_user))
            if found is not None:
                return found.name
        idle = self._idle(self._clock())
        count = self._of_key.get(key, 0) - sum(place[0] == key for _, place in idle)
        room = count < self.most and self._count - len(idle) < self.most * KEYS_IN_ALL
        return hashed(end_user) if room else OTHERS

    def _moved(self, place: _Place, alike: OrderedDict[_Place, _EndUser]) -> _EndUser | None:
        """Find one whose rules have changed their periods, and move it to those alike."""
        for others in self._known.values():
            found = others.pop(place, None)
            if found is not None:
                alike[place] = found
                return found
        return None

    def _idle(self, at: int) -> list[tuple[int, _Place]]:
        """Those that `_forget` would forget, and after how long: of those alike they come first."""
        found: list[tuple[int, _Place]] = []
        for idle, alike in self._known.items():
            for place, one in islice(alike.items(), _MOST_FORGOTTEN - len(found)):
                if one.seen > at - idle:
                    break
                found.append((idle, place))
        return found

    def _forget(self, at: int) -> None:
        """Forget those that are idle."""
        for idle, place in self._idle(at):
            del self._known[idle][place]
            self._count -= 1
            left = self._of_key[place[0]] - 1
            if left:
                self._of_key[place[0]] = left
            else:
                del self._of_key[place[0]]


def hashed(end_user: str) -> str:
    """Return the first 32 hexadecimal digits of the SHA-256 of an end user's text."""
    return sha256(end_user.encode("utf-8", "surrogatepass")).hexdigest()[:32]
