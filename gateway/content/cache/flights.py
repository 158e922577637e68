"""Equal requests at the same time: the first one calls the backend, the others wait for it."""

import asyncio
from typing import Final, Literal

from strowger_gateway.gateway.platform.eventloop.inline_task import in_task

Landing = bytes | Literal["failed", "alone"]
"""An entry; or the leader failed or left, and one that waits takes its place; or each of those that
wait goes on alone, because the answer is not for them."""

MOST_LEADERS: Final = 3
"""Leaders that a request waits for, one after the other, before it goes on alone: a backend that
fails is asked by all, as without a cache, and not by one after the other."""


class Flight:
    """One call of a backend. It lands once."""

    __slots__ = ("_flights", "_key", "_landed", "_landing")

    def __init__(self, flights: "dict[str, Flight]", key: str) -> None:
        self._landing: Landing | None = None
        self._landed: asyncio.Event | None = None
        """Created by the first that waits: most flights are awaited by none."""
        self._flights = flights
        self._key = key
        flights[key] = self

    async def landing(self, within_s: float) -> Landing | None:
        """Wait for the landing; `None` if there is none in time."""
        if self._landing is None:
            await in_task()
        if self._landing is None:
            if self._landed is None:
                self._landed = asyncio.Event()
            try:
                async with asyncio.timeout(within_s):
                    await self._landed.wait()
            except TimeoutError:
                return self._landing
        return self._landing

    def land(self, landing: Landing, *, stays: bool = False) -> None:
        """Wake all that wait. stays: until `leave`, so that requests find what is being written."""
        if self._landing is None:
            self._landing = landing
            if self._landed is not None:
                self._landed.set()
        if not stays:
            self.leave()

    def leave(self) -> None:
        if self._flights.get(self._key) is self:
            del self._flights[self._key]


class Flights:
    """Those of one process, by key."""

    def __init__(self) -> None:
        self._flights: dict[str, Flight] = {}

    def of(self, key: str) -> Flight | None:
        """Return the one to wait for."""
        return self._flights.get(key)

    def begin(self, key: str) -> Flight:
        return Flight(self._flights, key)
