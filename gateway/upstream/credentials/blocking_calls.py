"""Blocking calls of vendors' libraries: in one thread beside the event loop, bounded in time."""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

T = TypeVar("T")


class BlockingCalls:
    """One call at a time: another one waits for its turn, within its own limit.

    limit_s: for a call, its turn included. What outlasts it goes on, and its outcome is dropped.
    """

    def __init__(self, limit_s: float) -> None:
        self._limit_s = limit_s
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="credentials")

    async def run(self, call: Callable[[], T]) -> T:
        """What `call` returns or raises; TimeoutError where that takes too long."""
        async with asyncio.timeout(self._limit_s):
            return await asyncio.get_running_loop().run_in_executor(self._thread, call)

    def close(self) -> None:
        """Waits for nothing; the thread ends with the call that it is in."""
        self._thread.shutdown(wait=False, cancel_futures=True)
