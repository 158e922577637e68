"""Process large bodies in threads: a few at a time, and one at a time per API key."""

import asyncio
from collections.abc import AsyncGenerator, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from typing import Final, TypeVar

T = TypeVar("T")

AT_ONCE: Final = 2
"""Large bodies at a time per process: more would only compete for the interpreter lock."""


class _Line:
    """The queue of one key. waiting: requests in the queue, including the one that is running."""

    __slots__ = ("lock", "waiting")

    def __init__(self) -> None:
        self.lock = asyncio.Lock()
        self.waiting = 0


class LargeBodyQueue:
    """Queue large bodies per key, so that one key's bodies never delay another key's."""

    def __init__(self) -> None:
        self._lines: dict[str, _Line] = {}
        self._free = asyncio.Semaphore(AT_ONCE)
        self._threads: ThreadPoolExecutor | None = None

    @asynccontextmanager
    async def slot(self, key: str) -> AsyncGenerator[None]:
        """Wait for earlier bodies of the same key, then for one of AT_ONCE slots."""
        line = self._lines.setdefault(key, _Line())
        line.waiting += 1
        try:
            async with line.lock, self._free:
                yield
        finally:
            line.waiting -= 1
            if not line.waiting:
                del self._lines[key]

    async def run(self, call: Callable[[], T]) -> T:
        """Run `call` in a thread and return its result; call it inside `turn`.

        A thread cannot be stopped: when cancelled, this waits for the thread to finish, so that
        the slot is released only when the work is over.
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
