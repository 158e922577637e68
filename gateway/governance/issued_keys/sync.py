"""The leader's list of issued keys: read from the store, sent to the processes that serve.

A change reaches a process within two seconds: at once if this gateway made it, with the next round
of messages from another gateway over Redis, and else with the next poll of the store.
"""

import asyncio
import logging
import os
import socket
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from secrets import token_hex
from typing import Final, TypeVar, cast

from strowger_gateway.gateway.config.schema.config import Config
from strowger_gateway.gateway.governance.issued_keys.messages import (
    KeysApplied,
    KeysChanged,
    KeysUsed,
)
from strowger_gateway.gateway.platform.background import OnCrash, ignore_crash, keep_running
from strowger_gateway.gateway.platform.clock import now
from strowger_gateway.gateway.storage.sql.errors import StoreUnavailable
from strowger_gateway.gateway.storage.sql.key_rows import IssuedKey, KeyList, KeyRows, ListReader

POLL_S: Final = 1.0
"""Interval between polls of the store."""

PAUSE_S: Final = 0.1
"""Minimum interval between reads, however many changes are announced."""

FIRST_ANSWER_S: Final = 2.0
"""Timeout of the store's first answer; without one, the gateway starts with the file's keys."""

ANSWER_S: Final = 5.0
"""Silence of the store after which it counts as unreachable."""

REPORT_S: Final = 10.0
"""Interval between reports to the store of what is in effect and of the last uses of keys."""

FORGET_S: Final = 3600.0
"""A gateway that has not reported for this long is dropped from the store."""

_SILENT: Final = f"no answer within {ANSWER_S:g} s"
_log = logging.getLogger("strowger.keys")
_T = TypeVar("_T")


class KeySync:
    """`start` it before the first serving process, and `close` it after the last.

    latest:      the last list, `None` before the first; it applies while the store is unreachable.
    unavailable: why the store could not be read last, "" if it was.
    read_at:     when it was read last, Unix seconds; 0: never.
    send:        to be set; sends the list to every serving process.
    """

    def __init__(
        self,
        rows: KeyRows,
        config: Callable[[], Config],
        *,
        poll_s: float = POLL_S,
    ) -> None:
        """config: returns the current configuration."""
        self.latest: KeyList | None = None
        self.unavailable = ""
        self.read_at = 0.0
        self._rows = rows
        self._config = config
        self.send: Callable[[KeyList], None] = _ignore
        self._poll_s = poll_s
        self._id = token_hex(8)
        self._applied: dict[int, int] = {}
        self._used: dict[str, float] = {}
        self._reported: tuple[int, int] = (-1, 0)
        self._report_at = 0.0
        self._warned: frozenset[str] = frozenset()
        self._wake = asyncio.Event()
        self._threads = ThreadPoolExecutor(1, "issued-keys")
        self._hanging: asyncio.Future[object] | None = None
        self._following: asyncio.Task[None] | None = None

    @property
    def version(self) -> int:
        """The version of the list; -1 before the first."""
        return -1 if self.latest is None else self.latest.version

    @property
    def wanted(self) -> bool:
        """Whether the configuration uses keys at all."""
        return self._config().auth.mode == "keys"

    async def start(self, crashed: OnCrash = ignore_crash) -> None:
        """Read the list once, then follow the store until `close`.

        An unreachable store is logged and blocks nothing.
        """
        if self.wanted:
            try:
                async with asyncio.timeout(FIRST_ANSWER_S):
                    await self._read()
            except TimeoutError:
                self._on_unavailable(f"no answer within {FIRST_ANSWER_S:g} s")
        work = keep_running("issued keys", self._follow, crashed)
        self._following = asyncio.create_task(work)

    async def close(self) -> None:
        """Store the last uses and leave the list of readers, if the store answers soon."""
        if self._following is not None:
            self._following.cancel()
            await asyncio.gather(self._following, return_exceptions=True)
        with suppress(TimeoutError, StoreUnavailable):
            async with asyncio.timeout(FIRST_ANSWER_S):
                if self._used:
                    await self._in_thread(partial(self._rows.note_used, self._used))
                if self._report_at:
                    await self._in_thread(partial(self._rows.leave, self._id))
        self._threads.shutdown(wait=False, cancel_futures=True)

    def on_message(self, process: int, message: KeysApplied | KeysChanged | KeysUsed) -> None:
        """Take a message of a serving process."""
        match message:
            case KeysApplied(version=version):
                self._applied[process] = version
                self._wake.set()
            case KeysChanged():
                self._wake.set()
            case KeysUsed(times=times):
                self._used.update(times)

    def leave(self, process: int) -> None:
        """A serving process has exited."""
        self._applied.pop(process, None)

    def noticed(self, version: int) -> None:
        """Another gateway has this version of the list."""
        if version > self.version:
            self._wake.set()

    async def _follow(self) -> None:
        while True:
            with suppress(TimeoutError):
                async with asyncio.timeout(self._poll_s):
                    await self._wake.wait()
            self._wake.clear()
            if self.wanted:
                await self._read()
                await self._report()
            await asyncio.sleep(PAUSE_S)

    async def _read(self) -> None:
        """Read the list if it has changed, and send it."""
        try:
            found = await self._in_thread(partial(self._changed, self.version))
        except StoreUnavailable as exc:
            self._on_unavailable(str(exc))
            return
        if self.unavailable:
            _log.warning("store reachable again; issued keys are up to date")
        self.unavailable, self.read_at = "", time.time()
        if found is not None:
            self.latest = found
            self.send(found)
        self._warn()

    def _changed(self, known: int) -> KeyList | None:
        """Return the list unless its version is `known`. Blocks."""
        return None if self._rows.version() == known else self._rows.current()

    def _on_unavailable(self, why: str) -> None:
        if not self.unavailable:
            _log.error(
                "store unreachable; serving only the keys of the configuration file: %s"
                if self.latest is None
                else "store unreachable; continuing with the last known issued keys: %s",
                why,
            )
        self.unavailable = why

    async def _report(self) -> None:
        """Store what is in effect when that changes, and at times that the gateway runs."""
        version = min(self._applied.values(), default=-1)
        effect = (version, len(self._applied))
        if effect == self._reported and now() - self._report_at < REPORT_S:
            return
        used, self._used = self._used, {}
        try:
            await self._in_thread(partial(self._store_report, *effect, used))
        except StoreUnavailable:
            self._used = {**used, **self._used}
            return
        self._reported, self._report_at = effect, now()

    def _store_report(self, version: int, processes: int, used: Mapping[str, float]) -> None:
        """Blocks."""
        at = time.time()
        if used:
            self._rows.note_used(used)
        reader = ListReader(
            id=self._id,
            host=socket.gethostname(),
            pid=os.getpid(),
            processes=processes,
            version=version,
            at=at,
        )
        self._rows.report(reader, at - FORGET_S)

    def _warn(self) -> None:
        """Log each key that cannot be used as issued, once."""
        warnings = frozenset(self._warnings())
        for warning in sorted(warnings - self._warned):
            _log.warning("%s", warning)
        self._warned = warnings

    def _warnings(self) -> Iterator[str]:
        config = self._config()
        names = {key.name for key in config.auth.keys}
        teams = {team.name for team in config.teams}
        for key in () if self.latest is None else self.latest.keys:
            if key.name in names:
                yield f"issued key {key.name!r} is ignored: the configuration has one of this name"
            elif key.team and key.team not in teams:
                yield f"issued key {key.name!r} is refused: its team {key.team!r} is not configured"

    async def _in_thread(self, work: Callable[[], _T]) -> _T:
        """Raises StoreUnavailable, also while the store has not answered the last call."""
        if (last := self._hanging) is not None:
            await asyncio.wait({last}, timeout=ANSWER_S)
            if not last.done():
                raise StoreUnavailable(_SILENT)
            last.exception()  # asyncio logs those that nothing has looked at
        future = asyncio.get_running_loop().run_in_executor(self._threads, work)
        self._hanging = cast("asyncio.Future[object]", future)
        await asyncio.wait({future}, timeout=ANSWER_S)
        if not future.done():
            raise StoreUnavailable(_SILENT)
        self._hanging = None
        return future.result()


def latest_keys(keys: KeySync | None) -> tuple[IssuedKey, ...]:
    """Return the keys of the last list; none without one."""
    return () if keys is None or keys.latest is None else keys.latest.keys


def _ignore(found: KeyList) -> None:
    """The default of `send`."""
