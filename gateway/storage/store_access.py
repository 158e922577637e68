"""Calls to the store that a client or an operator waits for."""

from collections.abc import Callable
from functools import partial
from typing import TypeVar

from strowger_gateway.gateway.platform.fair_threads import FairThreads
from strowger_gateway.gateway.storage.sql.base import Store
from strowger_gateway.gateway.storage.sql.errors import StoreUnavailable
from strowger_gateway.schemas.holdings import ANONYMOUS, Holder

_THREADS = 4
"""Concurrent calls of one process; further calls queue."""

_T = TypeVar("_T")


class StoreAccess:
    """The store of one process. Its methods block, so `call` has threads for them.

    The threads are its own: a hanging store would block the event loop's default pool for others.
    unavailable: why the store is known to be unreachable, "" if it is not. The service that polls
                 the store sets it.
    """

    def __init__(self, store: Store) -> None:
        self.store = store
        self.unavailable = ""
        self._threads = FairThreads(_THREADS, "store")

    async def call(self, work: Callable[[Store], _T], holder: Holder = ANONYMOUS) -> _T:
        """Call `work` with the store in a thread, when it is the holder's turn; return its result.

        Raises StoreUnavailable; without a call if the store is known to be unreachable.
        """
        if self.unavailable:
            raise StoreUnavailable(self.unavailable, retry_after=1)
        return await self._threads.run(holder, partial(work, self.store), None)

    def close(self) -> None:
        """Give up the threads, without waiting for the calls that run. The store stays open."""
        self._threads.close()
