"""Work on large bodies in threads: one at a time for all, in turns of teams and their keys.

Python code in several threads competes for the interpreter lock, so more threads make nothing
faster; they only make the event loop wait longer for the lock. Bodies up to SMALL have a thread of
their own, so that a chat of 100 KB never waits for another key's 20 MB.
"""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractAsyncContextManager
from typing import Final, TypeVar

from strowger_gateway.gateway.platform.fair_slots import FairSlots
from strowger_gateway.schemas.holdings import Holder

T = TypeVar("T")

SMALL: Final = 1024 * 1024
"""Bytes of a body whose work takes some 10 ms, so that another may wait for it."""


class LargeBodyQueue:
    """Each call is a turn of its own, so that others come between the steps of a long body."""

    def __init__(self) -> None:
        self._small = _Lane("small-body")
        self._large = _Lane("large-body")
        self._inflating = FairSlots(1)

    async def run(self, call: Callable[[], T], holder: Holder, size: int) -> T:
        """Run `call` in a thread when it is the key's turn, and return its result.

        size: bytes that it works on. A thread cannot be stopped: when cancelled, this waits for it
        to finish, so that the turn is over only when the work is.
        """
        lane = self._small if size <= SMALL else self._large
        return await lane.run(call, holder)

    def inflating(self, holder: Holder) -> AbstractAsyncContextManager[None]:
        """Hold the place of the body that the event loop decompresses, in pieces."""
        return self._inflating.holding(holder)


class _Lane:
    """One thread and its queue. The thread starts with the first call."""

    __slots__ = ("_name", "_slots", "_thread")

    def __init__(self, name: str) -> None:
        self._slots = FairSlots(1)
        self._name = name
        self._thread: ThreadPoolExecutor | None = None

    async def run(self, call: Callable[[], T], holder: Holder) -> T:
        async with self._slots.holding(holder):
            if self._thread is None:
                self._thread = ThreadPoolExecutor(1, thread_name_prefix=self._name)
            done = asyncio.get_running_loop().run_in_executor(self._thread, call)
            try:
                return await asyncio.shield(done)
            except asyncio.CancelledError:
                await asyncio.wait({done})
                if not done.cancelled():
                    done.exception()
                raise
