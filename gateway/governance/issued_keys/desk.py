"""Issued keys in a serving process: calls of the authority in threads, and word to the leader."""

import asyncio
import logging
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from typing import Final, TypeVar

from strowger_gateway.gateway.config.schema.config import Config
from strowger_gateway.gateway.governance.issued_keys.authority import KeyAuthority, KeyEvent
from strowger_gateway.gateway.storage.sql.key_rows import KeyRows

EFFECT_S: Final = 1.0
"""The longest that a change waits until it is in effect in its own process."""

_THREADS: Final = 2
_log = logging.getLogger("strowger.keys")
_T = TypeVar("_T")


class KeyDesk:
    """Run calls of the authority, so that they block no request."""

    def __init__(
        self,
        rows: KeyRows,
        config: Callable[[], Config],
        changed: Callable[[], None],
        *,
        follows: bool = False,
    ) -> None:
        """changed: called after a change is stored, so that it takes effect at once.

        follows: `in_effect` is called for each list, so that a change can wait for its own.
        """
        self._authority = KeyAuthority(rows, config, log_event)
        self._follows = follows
        self._version = -1
        self._reached = asyncio.Event()
        self._changed = changed
        self._threads = ThreadPoolExecutor(_THREADS, "key-desk")

    async def read(self, work: Callable[[KeyAuthority], _T]) -> _T:
        """Raises StoreUnavailable, and what `work` raises."""
        call = partial(work, self._authority)
        return await asyncio.get_running_loop().run_in_executor(self._threads, call)

    async def change(self, work: Callable[[KeyAuthority], _T]) -> _T:
        """Raises StoreUnavailable, and what `work` raises."""
        try:
            found = await self.read(work)
        finally:
            self._changed()  # also after an error: a commit may have been lost on its way back
        if self._follows:
            await self._wait_for(await self.read(lambda keys: keys.rows.version()))
        return found

    def in_effect(self, version: int) -> None:
        """This process has put a version of the list into effect."""
        self._version = version
        self._reached.set()
        self._reached = asyncio.Event()

    async def _wait_for(self, version: int) -> None:
        """Wait until a version is in effect here, so that a new key works once it is known."""
        with suppress(TimeoutError):
            async with asyncio.timeout(EFFECT_S):
                while self._version < version:
                    await self._reached.wait()

    def close(self) -> None:
        self._threads.shutdown(wait=False, cancel_futures=True)


def log_event(event: KeyEvent) -> None:
    """Log a change of a key: the place for an audit record."""
    fields = f" ({', '.join(event.fields)})" if event.fields else ""
    _log.warning("API key %s %s by %s%s", event.name, event.action, event.by, fields)
