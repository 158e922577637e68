"""Which running sequences give way to another key's: those of the key that holds the most.

A sequence gives way only if its key still holds at least as much as the other one does then. So
each exchange evens out what keys hold, two keys never take the same place from each other in turn,
and a key never loses its last sequence to another.
"""

from collections import Counter
from collections.abc import Callable, Iterable

from strowger_gateway.local_engine.scheduling.block_pool import FreedPages
from strowger_gateway.local_engine.scheduling.key_shares import KeyShares
from strowger_gateway.local_engine.scheduling.sequence import Sequence
from strowger_gateway.schemas.holdings import Holder


class GivingWay:
    """The exchange for one sequence: `take` one after the other until there is room."""

    def __init__(
        self,
        shares: KeyShares,
        freed: FreedPages,
        taker: Sequence,
        *,
        places: int,
        pages: int,
    ) -> None:
        """places, pages: what the taker will hold in addition."""
        self._shares = shares
        self._freed = freed
        self._taker = taker
        self._places = places
        self._pages = pages
        self._lines: dict[str, list[Sequence]] = {}
        self._lost: dict[object, Counter[str]] = {}

    def offer(self, running: Iterable[Sequence], able: Callable[[Sequence], bool]) -> None:
        """Consider other keys' sequences for which `able` holds."""
        own = self._taker.holder.key
        for one in running:
            if one.holder.key != own and able(one):
                self._lines.setdefault(one.holder.key, []).append(one)
        for line in self._lines.values():
            line.sort(key=lambda one: one.rank)

    def take(self) -> tuple[Sequence, int] | None:
        """Return the worst sequence of the largest key, and how many pages it frees."""
        if not self._lines:
            return None
        taker = self._taker.holder
        least = self._group_load(taker, self._places, self._pages)
        for (load, _), line in sorted(
            ((self._size(line), line) for line in self._lines.values()),
            key=lambda found: found[0],
            reverse=True,
        ):
            victim = line[-1]
            if load < least and victim.holder.group != taker.group:
                continue
            pages = self._freed.count(victim.blocks)
            if not self._is_fair(victim.holder, pages):
                continue
            self._freed.release(victim.blocks)
            line.pop()
            if not line:
                del self._lines[victim.holder.key]
            for owner in (victim.holder.key, victim.holder.group):
                lost = self._lost.setdefault(owner, Counter())
                lost["places"] += 1
                lost["pages"] += pages
            return victim, pages
        return None

    def _size(self, line: list[Sequence]) -> tuple[float, float]:
        holder = line[-1].holder
        return (self._group_load(holder), self._key_load(holder))

    def _is_fair(self, holder: Holder, pages: int) -> bool:
        taker = self._taker.holder
        if holder.group == taker.group:
            return self._key_load(holder, -1, -pages) >= self._key_load(
                taker, self._places, self._pages
            )
        return self._group_load(holder, -1, -pages) >= self._group_load(
            taker, self._places, self._pages
        )

    def _key_load(self, holder: Holder, places: int = 0, pages: int = 0) -> float:
        shares, lost = self._shares, self._lost.get(holder.key, _NOTHING)
        return shares.load(
            shares.places.by_key(holder) - lost["places"] + places,
            shares.pages.by_key(holder) - lost["pages"] + pages,
        )

    def _group_load(self, holder: Holder, places: int = 0, pages: int = 0) -> float:
        shares, lost = self._shares, self._lost.get(holder.group, _NOTHING)
        return shares.load(
            shares.places.by_group(holder) - lost["places"] + places,
            shares.pages.by_group(holder) - lost["pages"] + pages,
        )


_NOTHING: Counter[str] = Counter()
