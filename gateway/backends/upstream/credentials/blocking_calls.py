"""Run blocking calls of vendors' libraries in one separate thread, with a time limit."""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from strowger_gateway.gateway.platform.eventloop.inline_task import in_task

T = TypeVar("T")


class BlockingCalls:
    """Run one call at a time: another one waits for its turn, within its own limit.

    limit_s: for a call, including its wait. A call beyond it continues, its outcome is dropped.
    """

    def __init__(self, limit_s: float) -> None:
        self._limit_s = limit_s
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="credentials")

    async def run(self, call: Callable[[], T]) -> T:
        """Return or raise what `call` does; raise TimeoutError if it takes too long."""
        await in_task()
        async with asyncio.timeout(self._limit_s):
            return await asyncio.get_running_loop().run_in_executor(self._thread, call)

    def close(self) -> None:
        """Return immediately; the thread ends after its current call."""
        self._thread.shutdown(wait=False, cancel_futures=True)
