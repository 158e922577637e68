"""Bound what fetching uses at a time, connections and bytes, fairly between API keys."""

import asyncio
from collections import OrderedDict, defaultdict, deque
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from schemas.errors import InvalidRequest


class FairSlots:
    """A number of slots (connections, bytes) that keys share; a request without one waits.

    Waiting keys are served in turn, the requests of one key in order. A named key holds at most
    half of the slots, so that other keys always get some.
    """

    def __init__(self, places: int) -> None:
        self._places = places
        self._left = places
        self._held: defaultdict[str, int] = defaultdict(int)
        self._waiting: OrderedDict[str, deque[tuple[asyncio.Future[None], int]]] = OrderedDict()

    @property
    def held(self) -> int:
        return self._places - self._left

    def bounded(self, key: str, places: int) -> int:
        """Return how many of `places` a key may hold."""
        return min(places, self._most(key))

    async def acquire(self, key: str, places: int) -> None:
        """places: at most `bounded(key, places)`."""
        if not self._waiting and self._fits(key, places):
            self._grant(key, places)
            return
        future = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(key, deque()).append((future, places))
        self._serve()
        try:
            await future
        except asyncio.CancelledError:
            if future.done() and not future.cancelled():
                self.release(key, places)
            else:
                self._forget(key, future)
                self._serve()
            raise

    def release(self, key: str, places: int) -> None:
        """Release `places`; may be a part of what was acquired."""
        self._left += places
        self._held[key] -= places
        if not self._held[key]:
            del self._held[key]
        self._serve()

    @asynccontextmanager
    async def holding(self, key: str, places: int) -> AsyncGenerator[None]:
        await self.acquire(key, places)
        try:
            yield
        finally:
            self.release(key, places)

    def _most(self, key: str) -> int:
        return max(1, self._places // 2) if key else self._places

    def _fits(self, key: str, places: int) -> bool:
        return places <= self._left and self._held.get(key, 0) + places <= self._most(key)

    def _grant(self, key: str, places: int) -> None:
        self._left -= places
        self._held[key] += places

    def _serve(self) -> None:
        """Serve one request per key in turn, until the next eligible one finds too few slots."""
        served = True
        while served:
            served = False
            for key in list(self._waiting):
                future, places = self._waiting[key][0]
                if future.done():  # its task is cancelled, but has not run since
                    self._forget(key, future)
                    served = True
                    continue
                if self._held.get(key, 0) + places > self._most(key):
                    continue
                if places > self._left:
                    return
                self._grant(key, places)
                self._forget(key, future)
                if key in self._waiting:
                    self._waiting.move_to_end(key)
                future.set_result(None)
                served = True

    def _forget(self, key: str, future: "asyncio.Future[None]") -> None:
        line = self._waiting.get(key)
        if line is None:
            return
        kept = deque(one for one in line if one[0] is not future)
        if kept:
            self._waiting[key] = kept
        else:
            del self._waiting[key]


class ByteMeter:
    """Counts the bytes of one request's images as they arrive. limit: for all images in total."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.used = 0

    def add(self, count: int, where: str) -> None:
        """Raises InvalidRequest for the first byte too many."""
        self.used += count
        if self.used > self.limit:
            raise InvalidRequest(
                f"{where} is too large: the images of a request may have at most {self.limit} "
                "bytes in total",
                param=where,
                code="invalid_image_url",
            )
