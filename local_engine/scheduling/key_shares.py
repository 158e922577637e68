"""What each API key holds of an engine: places for answers, and pages of the cache.

A key's load is its dominant share, the larger of both fractions
(https://www.usenix.org/conference/nsdi11/dominant-resource-fairness-fair-allocation-multiple-resource-types).
"""

from collections import Counter
from collections.abc import Callable, Iterable

from strowger_gateway.schemas.holdings import Holder, Holdings

SEVERAL_S = 300.0
"""Seconds after an arrival of another key for which one key leaves places and pages to others."""


class SeveralKeys:
    """Remembers whether requests of more than one key came lately."""

    __slots__ = ("_latest", "_until")

    def __init__(self) -> None:
        self._latest = ""
        self._until = float("-inf")

    def seen(self, holder: Holder, now: float) -> None:
        """Note a request of a key; one without a key does not count."""
        key = holder.key
        if key and key != self._latest:
            if self._latest:
                self._until = max(self._until, now + SEVERAL_S)
            self._latest = key

    def at(self, now: float) -> bool:
        """Return whether another key came less than SEVERAL_S ago."""
        return now < self._until


class KeyShares:
    """Counts by key and team. `enter` and `leave` per sequence; `hold_…` while it runs.

    places, pages: bounded per key while several keys exist, see Holdings.
    """

    __slots__ = ("_groups", "_holders", "_live", "_several", "pages", "places")

    def __init__(self, places: int, pages: int) -> None:
        self.places = Holdings(places)
        self.pages = Holdings(max(pages, 1))
        self._live: dict[str, int] = {}
        self._holders: dict[str, Holder] = {}
        self._groups: Counter[tuple[str, str]] = Counter()
        self._several = SeveralKeys()

    @property
    def contended(self) -> bool:
        """Whether sequences of more than one key run or wait."""
        return len(self._live) > 1

    def enter(self, holder: Holder, now: float) -> Holder:
        """Count a sequence that waits or runs. Return its holder.

        A key changes its team when none of its sequences is left, so that what was counted for a
        team is given back by the same one.
        """
        key = holder.key
        live = self._live.get(key, 0)
        self._live[key] = live + 1
        if live:
            return self._holders[key]
        self._holders[key] = holder
        self._groups[holder.group] += 1
        self._several.seen(holder, now)
        return holder

    def leave(self, holder: Holder) -> None:
        """Count a sequence as ended that `enter` counted."""
        key = holder.key
        live = self._live[key] - 1
        if live:
            self._live[key] = live
            return
        del self._live[key], self._holders[key]
        self._groups[holder.group] -= 1
        if not self._groups[holder.group]:
            del self._groups[holder.group]

    def refresh(self, now: float) -> None:
        """Decide for the next step whether keys are bounded."""
        self.places.several = self.pages.several = self.contended or self._several.at(now)

    def by_key(self, holder: Holder) -> float:
        """Return the key's dominant share, 0 to 1."""
        return self.load(self.places.by_key(holder), self.pages.by_key(holder))

    def by_group(self, holder: Holder) -> float:
        """Return the dominant share of its team, 0 to 1."""
        return self.load(self.places.by_group(holder), self.pages.by_group(holder))

    def load(self, places: int, pages: int) -> float:
        """Return the dominant share of so many places and pages."""
        return max(places / self.places.total, pages / self.pages.total)

    def over_share(self, holder: Holder) -> bool:
        """Return whether the team holds more than its equal part of all, or the key of its team's.

        Parts are counted over the teams, and the team's keys, that have a sequence.
        """
        part = 1 / max(len(self._groups), 1)
        if self.by_group(holder) > part:
            return True
        # A team's keys are not counted one by one: its largest holders are found by their load.
        keys = max(self._groups[holder.group], 1)
        return keys > 1 and self.by_key(holder) > part / keys

    def excess(self, holder: Holder, pages: int) -> Callable[[int, int], bool]:
        """Return whether one more sequence with these additional pages exceeds the key's bound.

        The arguments are the sequences and pages of the key that would be given up for it. The
        only sequence of a key may have any size.
        """
        places, held = self.places.by_key(holder), self.pages.by_key(holder)
        most_places, most_pages = self.places.most(holder), self.pages.most(holder)

        def exceeds(gone: int, freed: int) -> bool:
            # With the whole pool as its bound, what it lacks is room.
            if most_places < self.places.total and places - gone + 1 > most_places:
                return True
            alone = places == gone or most_pages == self.pages.total
            return not alone and held - freed + pages > most_pages

        return exceeds

    def spare(self, holders: Iterable[Holder]) -> float:
        """Return the most that one of these teams could hold after it gave up a sequence."""
        places, pages = self.places, self.pages
        return max(
            (self.load(places.by_group(one) - 1, pages.by_group(one)) for one in holders),
            default=0.0,
        )

    def has_mates(self, holder: Holder) -> bool:
        """Return whether its team has another key with a sequence."""
        return self._groups[holder.group] > 1

    def over_bound(self, holder: Holder) -> bool:
        """Return whether the key holds more than one key may."""
        return not (self.places.within_bound(holder, 0) and self.pages.within_bound(holder, 0))

    def hold_pages(self, holder: Holder, count: int) -> None:
        """Count pages that no sequence held before; a negative count gives pages back."""
        if count > 0:
            self.pages.hold(holder, count)
        elif count:
            self.pages.give_back(holder, -count)
