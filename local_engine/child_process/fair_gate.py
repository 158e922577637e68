"""A semaphore that shares its slots fairly between tenants."""

import asyncio
from collections import Counter, OrderedDict, deque
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from schemas.errors import Throttled, Unavailable

RETRY_AFTER_S = 1.0


class Gate:
    """A semaphore with a fixed number of slots; waiting tenants get free slots in rotation.

    With two or more slots, one tenant never holds all of them, so a tenant with long work delays
    others by at most one slot.
    """

    def __init__(self, what: str, *, slots: int, waiting: int, wait_s: float, name: str) -> None:
        """what: the work, for error messages. slots: concurrent holders, at least 1.

        waiting: requests of one tenant that may wait; wait_s: longest wait in seconds.
        name: of the engine or provider, for error messages.
        """
        self._what = what
        self._free = slots
        self._each = max(1, slots - 1)
        self._waiting = waiting
        self._wait_s = wait_s
        self._name = name
        self._active: Counter[str] = Counter()
        self._queues: OrderedDict[str, deque[asyncio.Future[None]]] = OrderedDict()

    @asynccontextmanager
    async def slot(self, tenant: str) -> AsyncGenerator[None, None]:
        """Hold a slot. Cancelling the task leaves the queue or returns the slot.

        Raises Throttled if too many requests of this tenant are waiting or its earlier requests
        took too long, and Unavailable if other tenants held the slots for too long. Neither opens
        the gateway's circuit breaker for the backend.
        """
        await self._enter(tenant)
        try:
            yield
        finally:
            self._leave(tenant)

    async def _enter(self, tenant: str) -> None:
        if self._free and self._active[tenant] < self._each:
            self._take(tenant)
            return
        queue = self._queues.setdefault(tenant, deque())
        if len(queue) >= self._waiting:
            raise Throttled(
                f"{len(queue)} requests of this key are already waiting for {self._what}; "
                "wait for their answers",
                retry_after=RETRY_AFTER_S,
            )
        given = asyncio.get_running_loop().create_future()
        queue.append(given)
        try:
            async with asyncio.timeout(self._wait_s):
                await given
        except (TimeoutError, asyncio.CancelledError) as exc:
            if given.done() and not given.cancelled():
                self._leave(tenant)
            else:
                self._forget(tenant, given)
            if isinstance(exc, asyncio.CancelledError):
                raise
            if self._active[tenant] >= self._each:
                raise Throttled(
                    f"no slot for {self._what} within {self._wait_s:g} s because of this key's own "
                    "requests; wait for their answers",
                    retry_after=RETRY_AFTER_S,
                ) from exc
            raise Unavailable(
                f"{self._name}: no slot for {self._what} within {self._wait_s:g} s",
                retry_after=RETRY_AFTER_S,
            ) from exc

    def _take(self, tenant: str) -> None:
        self._free -= 1
        self._active[tenant] += 1

    def _leave(self, tenant: str) -> None:
        self._free += 1
        self._active[tenant] -= 1
        if not self._active[tenant]:
            del self._active[tenant]
        while self._free and (following := self._following()) is not None:
            queue = self._queues[following]
            given = queue.popleft()
            self._queues.move_to_end(following)
            if not queue:
                del self._queues[following]
            if not given.done():
                self._take(following)
                given.set_result(None)

    def _following(self) -> str | None:
        for tenant in self._queues:
            if self._active[tenant] < self._each:
                return tenant
        return None

    def _forget(self, tenant: str, given: "asyncio.Future[None]") -> None:
        queue = self._queues.get(tenant)
        if queue is not None and given in queue:
            queue.remove(given)
            if not queue:
                del self._queues[tenant]
