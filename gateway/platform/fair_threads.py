"""Threads for blocking calls, such as those of a database, which teams and keys use in turn."""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from strowger_gateway.gateway.platform.clock import now
from strowger_gateway.gateway.platform.eventloop.inline_task import in_task
from strowger_gateway.gateway.platform.fair_slots import FairSlots
from strowger_gateway.schemas.errors import Throttled
from strowger_gateway.schemas.holdings import Holder

LONGEST_QUEUE_S = 30.0
"""A call that found no thread for so long is refused, although the store answers others."""

_T = TypeVar("_T")


class FairThreads:
    """A number of threads. Use it on the event loop.

    The time that a call waits for its turn never counts as the time of the call.
    """

    def __init__(self, threads: int, name: str) -> None:
        """threads: at least 1. name: of the threads."""
        self._slots = FairSlots(threads)
        self._threads = ThreadPoolExecutor(threads, name)
        self._ended_at = now()

    @property
    def busy(self) -> int:
        """Return the number of threads in use."""
        return self._slots.held

    def close(self) -> None:
        """Without waiting for the calls that run."""
        self._threads.shutdown(wait=False, cancel_futures=True)

    async def run(self, holder: Holder, work: Callable[[], _T], timeout_s: float | None) -> _T:
        """Run `work` in a thread when it is the holder's turn, and return what it returns.

        timeout_s: for `work` alone; `None` is without limit. Raises TimeoutError if it takes
        longer, or if no call at all has ended for so long; Throttled after LONGEST_QUEUE_S in the
        queue; and what `work` raises. A thread stays in use until its call ends, wanted or not.
        """
        await in_task()
        if not self._slots.take(holder):
            await self._turn(holder, timeout_s)
        loop = asyncio.get_running_loop()
        try:
            done = loop.run_in_executor(self._threads, work)
        except RuntimeError:  # the threads are shut down
            self._slots.release(holder)
            raise TimeoutError from None

        def ended(done: "asyncio.Future[_T]") -> None:
            self._ended_at = now()
            self._slots.release(holder)
            if not done.cancelled():
                done.exception()  # nothing may wait for it any more: then asyncio would log it

        done.add_done_callback(ended)
        async with asyncio.timeout(timeout_s):
            return await asyncio.shield(done)

    async def _turn(self, holder: Holder, timeout_s: float | None) -> None:
        """Wait for a thread. See `run`."""
        began = now()
        turn = asyncio.ensure_future(self._slots.acquire(holder))
        patience_s = LONGEST_QUEUE_S if timeout_s is None else min(timeout_s, LONGEST_QUEUE_S)
        try:
            while not turn.done():
                await asyncio.wait({turn}, timeout=patience_s)
                if not turn.done():
                    self._check_progress(began, timeout_s)
        except BaseException:
            if not turn.cancel() and not turn.cancelled():
                self._slots.release(holder)
            raise

    def _check_progress(self, began: float, timeout_s: float | None) -> None:
        """Raise what ends the wait of a call in the queue. began: of its wait."""
        if timeout_s is not None and now() - max(self._ended_at, began) >= timeout_s:
            raise TimeoutError
        if now() - began >= LONGEST_QUEUE_S:
            raise Throttled(
                "too many requests of this API key wait for the database", retry_after=1
            )
