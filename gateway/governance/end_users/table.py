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

_KEYS_LOOKED_AT: Final = 8
"""Other keys that one new end user looks for idle ones in, in turn."""


class _EndUser:
    """name: of its account. seen: when its last request began, nanoseconds of the clock."""

    __slots__ = ("name", "seen")

    def __init__(self, name: str, seen: int) -> None:
        self.name = name
        self.seen = seen


class _Key:
    """The end users of one key, the one whose last request is oldest first.

    idle: nanoseconds without a request after which one is forgotten.
    """

    __slots__ = ("idle", "users")

    def __init__(self) -> None:
        self.idle = 0
        self.users: OrderedDict[str, _EndUser] = OrderedDict()

    def idle_users(self, at: int, most: int) -> int:
        """How many are idle, up to a bound."""
        count, before = 0, at - self.idle
        for one in islice(self.users.values(), most):
            if one.seen > before:
                break
            count += 1
        return count


class EndUserTable:
    """Names end users of keys. One that has sent nothing for a while is forgotten.

    How long depends on the rules of its key, so a key whose rules have long periods does not
    lengthen the memory of others. An account is named by a hash, because Redis and records keep it.

    A key takes no place from keys that have fewer: when all places are taken, a new end user gets
    that of the oldest one of the key with the most, unless its own key has as many.

    most: end users of one key.
    """

    def __init__(self, most: int = 1, clock: Callable[[], int] = monotonic_ns) -> None:
        """clock: nanoseconds."""
        self.most = most
        self._clock = clock
        self._keys: OrderedDict[str, _Key] = OrderedDict()  # the next to look for idle ones first
        self._by_count: dict[int, dict[str, _Key]] = {}
        self._fullest = 0
        self._count = 0

    def __len__(self) -> int:
        """How many have a name of their own."""
        return self._count

    def count_of(self, key: str) -> int:
        """How many of a key have one."""
        found = self._keys.get(key)
        return 0 if found is None else len(found.users)

    def name(self, key: str, end_user: str, idle: int) -> str:
        """Name the account of a key's end user: a hash, or OTHERS beyond the bound.

        idle: nanoseconds without a request after which it is forgotten, by the rules of the key.
        """
        at, of_key = self._clock(), self._keys.get(key)
        if of_key is not None:
            of_key.idle = idle
            found = of_key.users.get(end_user)
            if found is not None:
                found.seen = at
                of_key.users.move_to_end(end_user)
                return found.name
        for name, count in self._idle(key, at):
            self._drop(name, count)
            self._keys.move_to_end(name)
            if not self._keys[name].users:
                del self._keys[name]
        if not self._has_room(self.count_of(key), self._count):
            return OTHERS
        if self._count >= self.most * KEYS_IN_ALL:
            self._drop(next(iter(self._by_count[self._fullest])), 1)
        of_key = self._keys.get(key)
        if of_key is None:
            of_key = self._keys[key] = _Key()
            of_key.idle = idle
        known = of_key.users[end_user] = _EndUser(hashed(end_user), at)
        self._moved(key, of_key, len(of_key.users) - 1)
        self._count += 1
        return known.name

    def would_name(self, key: str, end_user: str) -> str:
        """What `name` would return now, without that anything changes."""
        of_key = self._keys.get(key)
        found = None if of_key is None else of_key.users.get(end_user)
        if found is not None:
            return found.name
        idle = self._idle(key, self._clock())
        own = sum(count for name, count in idle if name == key)
        every = sum(count for _, count in idle)
        room = self._has_room(self.count_of(key) - own, self._count - every)
        return hashed(end_user) if room else OTHERS

    def _has_room(self, of_key: int, in_all: int) -> bool:
        """Whether a key with so many may have one more."""
        if of_key >= self.most:
            return False
        return in_all < self.most * KEYS_IN_ALL or of_key + 1 < self._fullest

    def _idle(self, key: str, at: int) -> list[tuple[str, int]]:
        """Keys to look at for a new end user of one of them, and how many idle ones each has."""
        found: list[tuple[str, int]] = []
        left = _MOST_FORGOTTEN
        own = self._keys.get(key)
        if own is not None:
            found.append((key, own.idle_users(at, left)))
            left -= found[0][1]
        for name, other in islice(self._keys.items(), _KEYS_LOOKED_AT):
            if name != key:
                found.append((name, other.idle_users(at, left)))
                left -= found[-1][1]
        return found

    def _drop(self, key: str, count: int) -> None:
        """Forget the oldest end users of a key, which stays known."""
        if count:
            of_key = self._keys[key]
            before = len(of_key.users)
            for _ in range(count):
                of_key.users.popitem(last=False)
            self._moved(key, of_key, before)
            self._count -= count

    def _moved(self, key: str, of_key: _Key, before: int) -> None:
        """Keep the keys by their numbers of end users. before: how many it had."""
        if before:
            alike = self._by_count[before]
            del alike[key]
            if not alike:
                del self._by_count[before]
        count = len(of_key.users)
        if count:
            self._by_count.setdefault(count, {})[key] = of_key
        self._fullest = max(self._fullest, count)
        while self._fullest and self._fullest not in self._by_count:
            self._fullest -= 1


def hashed(end_user: str) -> str:
    """Return the first 32 hexadecimal digits of the SHA-256 of an end user's text."""
    return sha256(end_user.encode("utf-8", "surrogatepass")).hexdigest()[:32]
