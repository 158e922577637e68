"""Whose turn it is to probe a backend that is down: one replica's at a time, known ahead of time.

Each replica bars its own processes from probing while a breaker is open, takes the lease that all
replicas share shortly before the breaker is due, and lets its processes probe while it has it. So
no request waits for the lease. One that is not used goes round.
"""

from collections.abc import Iterator, Mapping
from typing import Protocol

from gateway.coordination.replica_transport import Ask, Link
from gateway.routing.resilience.circuit_breaker import Health

AHEAD_S = 1.0
"""A lease is taken so long before the breaker is due."""

UNUSED_S = 1.0
"""A lease that nobody has used so long after that is for the others."""


class Bar(Protocol):
    """A lease among the processes of this replica, which holds the processes off."""

    def free(self) -> bool: ...
    def take(self) -> bool: ...
    def drop(self) -> None:
        """Now."""
        ...


class Bars(Protocol):
    def lease(self, key: str) -> Bar: ...


class Turns:
    """Of one replica. Keys are those of breakers, places what they are called among replicas."""

    def __init__(self, link: Link, bars: Bars) -> None:
        self._link = link
        self._bars = bars
        self._barred: set[str] = set()
        self._mine: dict[str, float] = {}
        self._aside: dict[str, float] = {}
        self._places: dict[str, str] = {}

    async def settle(
        self, health: Mapping[str, Health], places: Mapping[str, str], replicas: int, now: float
    ) -> None:
        """As of now. health: breakers as all know them. Raises LinkAway."""
        self._places.update(places)
        is_open = {
            key: one.open_until
            for key, one in health.items()
            if one.open_until is not None and key in places
        }
        for key in self._barred - is_open.keys():
            self._let(key)
        asks: list[tuple[Ask, str]] = [
            *(("give", key) for key in self._mine.keys() - is_open.keys()),
            *(ask for key, until in is_open.items() for ask in self._due(key, until, now)),
        ]
        if not asks:
            return
        answers = await self._link.leases([(ask, self._places[key]) for ask, key in asks])
        for (ask, key), done in zip(asks, answers, strict=True):
            if ask == "take" and done:
                self._mine[key] = now
            elif ask == "give" or (ask == "keep" and not done):
                self._mine.pop(key, None)
                if key in is_open:
                    self._aside[key] = now + UNUSED_S * replicas

    def alone(self) -> None:
        """There is nobody to ask: each of the processes decides with the others here."""
        for key in tuple(self._barred):
            self._let(key)
        self._mine.clear()
        self._aside.clear()

    def _due(self, key: str, until: float, now: float) -> Iterator[tuple[Ask, str]]:
        """What to ask for about a breaker that is open until then."""
        taken = self._mine.get(key)
        if taken is None:
            self._hold(key)
            if until - now < AHEAD_S and now >= self._aside.get(key, now):
                yield "take", key
        elif key not in self._barred and not self._bars.lease(key).free():
            yield "keep", key  # a probe is under way
        elif -UNUSED_S < until - now < AHEAD_S or now - taken < UNUSED_S:
            self._let(key)  # what was told before it was taken has been heard since
            yield "keep", key
        else:
            self._hold(key)
            yield "give", key

    def _hold(self, key: str) -> None:
        """Next time, if a probe is under way just now."""
        if self._bars.lease(key).take():
            self._barred.add(key)

    def _let(self, key: str) -> None:
        if key in self._barred:
            self._barred.discard(key)
            self._bars.lease(key).drop()
