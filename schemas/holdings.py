"""Count what each key and each team holds of one scarce thing, and bound what one key may hold."""

from msgspec import Struct

LEVEL = 5
"""Of requests without a priority; those with one have the levels 1 (most urgent) to 5."""

BACKGROUND = 6
"""The level of requests that wait behind all others."""

AT_ONCE = 0
"""The level of a request that is served now or not at all."""

RESERVED = 8
"""Where several keys exist, one key never holds the last 1/RESERVED of a pool."""


class Holder(Struct, frozen=True):
    """An API key and its team.

    key: "" if clients are not told apart, which is never bounded. team: "" is a team of this key
    alone.
    """

    key: str = ""
    team: str = ""

    @property
    def group(self) -> tuple[str, str]:
        """The team that takes turns with other teams."""
        return (self.team, "") if self.team else ("", self.key)


ANONYMOUS = Holder()


class Holdings:
    """Places of one pool, by key and team: connections, bytes, pages, threads.

    total:   places, at least 1. May change at any time, also to less than what is held.
    several: whether more than one key exists, which bounds each of them. May change, too.
    free:    places that are not held; negative while more is held than `total`.
    """

    __slots__ = ("_groups", "_keys", "_used", "several", "total")

    def __init__(self, total: int, *, several: bool = False) -> None:
        self.total = total
        self.several = several
        self._used = 0
        self._keys: dict[str, int] = {}
        self._groups: dict[tuple[str, str], int] = {}

    @property
    def free(self) -> int:
        return self.total - self._used

    @property
    def used(self) -> int:
        return self._used

    @property
    def reserve(self) -> int:
        """Places that one key leaves to others; 0 with a single place."""
        return min(-(-self.total // RESERVED), self.total - 1)

    def most(self, holder: Holder) -> int:
        """Return how many places the key may hold, at least 1."""
        return self.total - self.reserve if self.several and holder.key else self.total

    def by_key(self, holder: Holder) -> int:
        """Return what the key holds."""
        return self._keys.get(holder.key, 0)

    def by_group(self, holder: Holder) -> int:
        """Return what the keys of its team hold together."""
        return self._groups.get(holder.group, 0)

    def within_bound(self, holder: Holder, amount: int) -> bool:
        """Return whether the key may hold `amount` more, free or not."""
        return self._keys.get(holder.key, 0) + amount <= self.most(holder)

    def at_bound(self, holder: Holder) -> bool:
        """Return whether the key holds all that one key may hold, and others may hold more."""
        most = self.most(holder)
        return most < self.total and self._keys.get(holder.key, 0) >= most

    def hold(self, holder: Holder, amount: int = 1) -> None:
        """Count places as held; the caller has examined whether they are free."""
        self._used += amount
        keys, groups, group = self._keys, self._groups, holder.group
        keys[holder.key] = keys.get(holder.key, 0) + amount
        groups[group] = groups.get(group, 0) + amount

    def give_back(self, holder: Holder, amount: int = 1) -> None:
        """Count places as free that `hold` counted for the same holder."""
        self._used -= amount
        keys, groups, group = self._keys, self._groups, holder.group
        left = keys[holder.key] - amount
        if left:
            keys[holder.key] = left
        else:
            del keys[holder.key]
        left = groups[group] - amount
        if left:
            groups[group] = left
        else:
            del groups[group]

    def largest(self) -> str | None:
        """Return the key that holds the most, `None` if nothing is held."""
        return max(self._keys, key=self._keys.__getitem__, default=None)
