"""Work on large bodies, in threads: a few at a time, and one at a time for each API key."""

import asyncio
from collections.abc import AsyncGenerator, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from typing import Final, TypeVar

T = TypeVar("T")

AT_ONCE: Final = 2
"""Large bodies of one process: more would only compete for the interpreter."""


class _Line:
    """Those of one key. waiting: those with a turn included."""

    __slots__ = ("lock", "waiting")

    def __init__(self) -> None:
        self.lock = asyncio.Lock()
        self.waiting = 0


class Turns:
    """Who has large bodies waits for their own: one key's never stand before another's."""

    def __init__(self) -> None:
        self._lines: dict[str, _Line] = {}
        self._free = asyncio.Semaphore(AT_ONCE)
        self._threads: ThreadPoolExecutor | None = None

    @asynccontextmanager
    async def turn(self, key: str) -> AsyncGenerator[None]:
        """Waits for those of the same key, then for one of AT_ONCE places."""
        line = self._lines.setdefault(key, _Line())
        line.waiting += 1
        try:
            async with line.lock, self._free:
                yield
        finally:
            line.waiting -= 1
            if not line.waiting:
                del self._lines[key]

    async def work(self, call: Callable[[], T]) -> T:
        """What `call` returns, from a thread; to be awaited in a turn.

        A thread cannot be stopped: when cancelled, this waits for its end, so that the turn is
        over when the work is.
        """
        if self._threads is None:
            self._threads = ThreadPoolExecutor(AT_ONCE, thread_name_prefix="large-body")
        done = asyncio.get_running_loop().run_in_executor(self._threads, call)
        try:
            return await asyncio.shield(done)
        except asyncio.CancelledError:
            await asyncio.wait({done})
            if not done.cancelled():
                done.exception()
            raise
