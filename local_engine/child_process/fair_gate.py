"""A semaphore that shares its slots fairly between API keys and their teams."""

import asyncio
from collections import Counter
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from msgspec import Struct

from strowger_gateway.schemas.errors import Throttled, Unavailable
from strowger_gateway.schemas.fair_share import FairShare
from strowger_gateway.schemas.holdings import Holder

RETRY_AFTER_S = 1.0


class _Turn(Struct, eq=False):
    """A request that waits. served: a slot was counted for it."""

    given: "asyncio.Future[None]"
    holder: Holder
    served: bool = False


class Gate:
    """A semaphore with a fixed number of slots, which teams and their keys get in turn.

    With two or more slots, one key never holds all of them, so a key with long work delays
    others by at most one slot.
    """

    def __init__(self, what: str, *, slots: int, waiting: int, wait_s: float, name: str) -> None:
        """what: the work, for error messages. slots: concurrent holders, at least 1.

        waiting: requests of one key that may wait; wait_s: longest wait in seconds.
        name: of the engine or provider, for error messages.
        """
        self._what = what
        self._shares = FairShare[_Turn](slots, several=True)
        self._most = waiting
        self._waiting: Counter[str] = Counter()
        self._wait_s = wait_s
        self._name = name

    @asynccontextmanager
    async def slot(self, holder: Holder) -> AsyncGenerator[None, None]:
        """Hold a slot. Cancelling the task leaves the queue or returns the slot.

        Raises Throttled if too many requests of this key are waiting or its earlier requests
        took too long, and Unavailable if other keys held the slots for too long. Neither opens
        the gateway's circuit breaker for the backend.
        """
        if not self._shares.take(holder):
            await self._wait(holder)
        try:
            yield
        finally:
            self._leave(holder)

    async def _wait(self, holder: Holder) -> None:
        if self._waiting[holder.key] >= self._most:
            raise Throttled(
                f"{self._most} requests of this key are already waiting for {self._what}; "
                "wait for their answers",
                retry_after=RETRY_AFTER_S,
            )
        turn = _Turn(given=asyncio.get_running_loop().create_future(), holder=holder)
        place = self._shares.wait(turn, holder)
        self._waiting[holder.key] += 1
        self._serve()
        try:
            async with asyncio.timeout(self._wait_s):
                await turn.given
        except (TimeoutError, asyncio.CancelledError) as exc:
            if turn.served:
                self._leave(holder)
            else:
                self._shares.withdraw(place)
                self._serve()
            if isinstance(exc, asyncio.CancelledError):
                raise
            raise self._too_late(holder) from exc
        finally:
            self._waiting[holder.key] -= 1
            if not self._waiting[holder.key]:
                del self._waiting[holder.key]

    def _too_late(self, holder: Holder) -> Throttled | Unavailable:
        if not self._shares.holdings.within_bound(holder, 1):
            return Throttled(
                f"no slot for {self._what} within {self._wait_s:g} s because of this key's own "
                "requests; wait for their answers",
                retry_after=RETRY_AFTER_S,
            )
        return Unavailable(
            f"{self._name}: no slot for {self._what} within {self._wait_s:g} s",
            retry_after=RETRY_AFTER_S,
        )

    def _leave(self, holder: Holder) -> None:
        self._shares.give_back(holder)
        self._serve()

    def _serve(self) -> None:
        for turn in list(self._shares.serve()):
            # A task that was cancelled in the meantime gives its slot back when it runs.
            turn.served = True
            if not turn.given.done():
                turn.given.set_result(None)
