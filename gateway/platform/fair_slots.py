"""Share slots (connections, bytes, threads) between API keys; who finds none waits for its turn."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from strowger_gateway.gateway.platform.eventloop.inline_task import in_task
from strowger_gateway.schemas.fair_share import FairShare
from strowger_gateway.schemas.holdings import LEVEL, Holder


class FairSlots:
    """A number of slots; a request that finds too few free ones waits for its turn.

    Turns, bounds and priorities are those of schemas/fair_share.py. A holder without a key is not
    bounded, and the only key of a gateway has such a holder (`Caller.holder`), so `several` is
    always true here.
    """

    def __init__(self, total: int) -> None:
        """total: at least 1."""
        self._shares: FairShare[_Asked] = FairShare(total, several=True)

    @property
    def held(self) -> int:
        """Return the number of slots in use."""
        return self._shares.holdings.used

    @property
    def waiting(self) -> int:
        """Return the number of requests in the queue."""
        return len(self._shares.queue)

    def bounded(self, holder: Holder, amount: int) -> int:
        """Return how many of `amount` slots the key may ever hold."""
        return self._shares.bounded(holder, amount)

    def at_bound(self, holder: Holder) -> bool:
        """Return whether the key holds all that one key may hold, and others may hold more."""
        return self._shares.holdings.at_bound(holder)

    def take(self, holder: Holder, amount: int = 1) -> bool:
        """Hold slots now, or return false. amount: at most `bounded(holder, amount)`."""
        return self._shares.take(holder, amount)

    async def acquire(
        self, holder: Holder, amount: int = 1, *, level: int = LEVEL, by: float | None = None
    ) -> None:
        """Hold slots, now or when it is the request's turn. Cancelling gives them back.

        amount: at most `bounded(holder, amount)`.
        by: loop time. Raises TimeoutError when it passes first; `None` waits without limit.
        """
        if self._shares.take(holder, amount):
            return
        await in_task()
        async with asyncio.timeout_at(by):
            await self._queue(holder, amount, level)

    def release(self, holder: Holder, amount: int = 1) -> None:
        """Give back slots; may be a part of what was acquired."""
        self._shares.give_back(holder, amount)
        self._serve()

    @asynccontextmanager
    async def holding(
        self, holder: Holder, amount: int = 1, *, level: int = LEVEL, by: float | None = None
    ) -> AsyncGenerator[None]:
        """Hold slots within the block. See `acquire`."""
        await self.acquire(holder, amount, level=level, by=by)
        try:
            yield
        finally:
            self.release(holder, amount)

    async def _queue(self, holder: Holder, amount: int, level: int) -> None:
        ticket = _Asked(holder, amount)
        waiting = self._shares.wait(ticket, holder, amount, level)
        self._serve()
        try:
            await ticket.granted
        except asyncio.CancelledError:
            if not ticket.granted.cancelled():
                self.release(holder, amount)
            elif not ticket.skipped:
                self._shares.withdraw(waiting)
                self._serve()
            raise

    def _serve(self) -> None:
        for ticket in self._shares.serve():
            if ticket.granted.done():  # its task is cancelled, but has not run since
                ticket.skipped = True
                self._shares.give_back(ticket.holder, ticket.amount)
            else:
                ticket.granted.set_result(None)


class _Asked:
    """One request in the queue. skipped: its turn came after its task was cancelled."""

    __slots__ = ("amount", "granted", "holder", "skipped")

    def __init__(self, holder: Holder, amount: int) -> None:
        self.holder = holder
        self.amount = amount
        self.skipped = False
        self.granted: asyncio.Future[None] = asyncio.get_running_loop().create_future()
