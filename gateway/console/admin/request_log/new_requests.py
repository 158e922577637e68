"""What the store has got last, read once for all who follow it in this process."""

import asyncio
from collections import deque
from collections.abc import Sequence
from functools import partial
from time import monotonic
from typing import Final

from msgspec import Struct

from strowger_gateway.gateway.console.admin.request_log.views import RequestView, of_store
from strowger_gateway.gateway.storage.sql.base import Store
from strowger_gateway.gateway.storage.sql.request_log.search import NewRequests, RequestSearch
from strowger_gateway.gateway.storage.store_access import StoreAccess

EVERY_S: Final = 0.5
"""How often the store is asked, however many follow."""

READ: Final = 1_000
KEPT: Final = 5_000
"""Requests of one reading, and those that are kept for who is slow."""

RESUMED: Final = 100
"""Imports that a follower may have missed and still gets: a minute or more."""


class Imported(Struct, frozen=True, kw_only=True):
    """The requests of some imports, up to and including `batch`; `after` is the one before them."""

    after: int
    batch: int
    requests: Sequence[RequestView]


class NewRequestReader:
    """The last imports into the store, of all gateways, in their order.

    An import has a number, is seen as a whole and never changes, so that who goes on after one
    misses nothing and gets nothing twice.
    """

    def __init__(self, store: StoreAccess) -> None:
        self._store = store
        self._kept: deque[Imported] = deque()
        self._batch: int | None = None
        self._asked_at = 0.0
        self._turn = asyncio.Lock()

    async def start(self, resumed: int | None = None) -> int:
        """Return the import to begin after: `resumed`, or the newest if that is too long ago.

        Raises StoreUnavailable.
        """
        newest = await self._store.call(_newest)
        if resumed is None or not newest - RESUMED <= resumed <= newest:
            return newest
        return resumed

    async def after(self, batch: int) -> tuple[Sequence[Imported], bool]:
        """Return the imports after one, and whether some before them are lost to who is slow.

        Raises StoreUnavailable.
        """
        async with self._turn:
            if monotonic() - self._asked_at >= EVERY_S:
                await self._read(batch)
                self._asked_at = monotonic()
        found = [one for one in self._kept if one.batch > batch]
        return found, bool(found) and found[0].after > batch

    async def _read(self, batch: int) -> None:
        """Read on where the last reading ended. After a pause, begin with who asks first."""
        last = self._batch
        if last is None or monotonic() - self._asked_at > 10 * EVERY_S:
            self._kept.clear()
            last = batch
        found = await self._store.call(partial(_after, batch=last))
        if found.batch > last:
            self._kept.append(
                Imported(
                    after=last,
                    batch=found.batch,
                    requests=[of_store(one) for one in found.requests],
                )
            )
        self._batch = found.batch
        while sum(len(one.requests) for one in self._kept) > KEPT and len(self._kept) > 1:
            self._kept.popleft()


def _newest(store: Store) -> int:
    return RequestSearch(store.database).newest_batch()


def _after(store: Store, batch: int) -> NewRequests:
    return RequestSearch(store.database).imported_after(batch, READ)
