"""The holds of all gateways, once per gateway: followed in the store, sent to its processes.

A change reaches a process at once if this gateway made it, and with the next poll otherwise. While
the store is away, the last known holds stay in effect, and end at their time.
"""

import asyncio
import logging
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from typing import Final, Literal, TypeVar, cast

from strowger_gateway.gateway.audit.event import Actor, AuditEvent
from strowger_gateway.gateway.parts.leader_side import LeaderContext, LeaderSide, Work
from strowger_gateway.gateway.routing.backend_events.event import BackendEvent
from strowger_gateway.gateway.routing.backend_events.leader_side import BackendEventsLeader
from strowger_gateway.gateway.routing.backend_holds.hold_rows import (
    end_over,
    note_configured,
    read_holds,
)
from strowger_gateway.gateway.routing.backend_holds.messages import HoldList, ReadHolds
from strowger_gateway.gateway.routing.backend_holds.names import is_configured
from strowger_gateway.gateway.routing.resilience.backend_hold import BackendHold
from strowger_gateway.gateway.storage.sql.errors import StoreUnavailable

POLL_S: Final = 1.0
"""Interval between looks at the store."""

ANSWER_S: Final = 5.0
"""Silence of the store after which it counts as away; at the start, FIRST_ANSWER_S."""

FIRST_ANSWER_S: Final = 2.0

NOTE_S: Final = 60.0
"""Interval at which the configured backends are noted."""

_SYSTEM: Final = Actor(kind="gateway")
_TIME_PASSED: Final = "its time is over"
_FORGOTTEN: Final = "no gateway's configuration has had it for an hour"
_log = logging.getLogger("strowger.backends")
_T = TypeVar("_T")


class HoldsLeader(LeaderSide[None, HoldList]):
    """latest: the holds in effect; empty before the store has answered."""

    questions = ReadHolds
    carries = HoldList

    def __init__(self, at: LeaderContext) -> None:
        self.latest = HoldList()
        self._at = at
        self._events = at.side(BackendEventsLeader).book
        self._stored: tuple[BackendHold, ...] | None = None
        self._unavailable = ""
        self._noted_at = float("-inf")
        self._threads = ThreadPoolExecutor(1, "backend-holds")
        self._hanging: asyncio.Future[object] | None = None

    async def start(self) -> None:
        with suppress(StoreUnavailable):
            await self._read(FIRST_ANSWER_S)

    def first(self) -> HoldList:
        return self.latest

    def carried(self) -> HoldList:
        return self.latest

    def carry(self, found: HoldList) -> None:
        """Until the store answers, what the gateway before this one knew."""
        if self._stored is None:
            self._use(found.holds)

    async def answer(self, question: ReadHolds) -> HoldList:
        """Raises StoreUnavailable."""
        await self._read(ANSWER_S)
        return self.latest

    def works(self) -> Sequence[Work]:
        return (("backend holds", self._follow),)

    async def close(self) -> None:
        self._threads.shutdown(wait=False, cancel_futures=True)

    async def _follow(self) -> None:
        while True:
            await asyncio.sleep(POLL_S)
            with suppress(StoreUnavailable):
                await self._read(ANSWER_S)
                await self._end_those_that_are_over()
                await self._note_configured()

    async def _read(self, within_s: float) -> None:
        """Read the store, and put what it has into effect. Raises StoreUnavailable."""
        try:
            found = await self._in_thread(partial(read_holds, self._at.store.database), within_s)
        except StoreUnavailable as exc:
            if not self._unavailable:
                _log.error(
                    "holds of backends cannot be read; the last known ones stay in effect: %s", exc
                )
            self._unavailable = str(exc)
            self._use(self._stored or self.latest.holds)
            raise
        if self._unavailable:
            _log.warning("holds of backends are read again, and up to date")
        self._unavailable, self._stored = "", found
        self._use(found)

    async def _end_those_that_are_over(self) -> None:
        at = time.time()
        if any(one.is_over(at) for one in self._stored or ()):
            ended = await self._in_thread(partial(end_over, self._at.store.database, at), ANSWER_S)
            self._record(ended, _TIME_PASSED)

    async def _note_configured(self) -> None:
        now = asyncio.get_running_loop().time()
        if not self._stored or now < self._noted_at + NOTE_S:
            return
        self._noted_at, config = now, self._at.config()
        names = [one.name for one in self._stored if is_configured(one.name, config)]
        call = partial(note_configured, self._at.store.database, names, time.time())
        self._record(await self._in_thread(call, ANSWER_S), _FORGOTTEN)

    def _record(self, ended: Sequence[BackendHold], why: str) -> None:
        """Record what ended by itself."""
        for one in ended:
            self._at.audit.record(
                AuditEvent.by(_SYSTEM, "backend.enable", target=one.name, reason=why)
            )

    def _use(self, stored: Sequence[BackendHold]) -> None:
        """Put these holds into effect, without those that are over, and report what changes."""
        at = time.time()
        holds = tuple(one for one in stored if not one.is_over(at))
        if holds == self.latest.holds:
            return
        before, after = ({one.name: one for one in some} for some in (self.latest.holds, holds))
        self.latest = HoldList(holds=holds)
        self._at.broadcast(self.latest)
        for name, one in before.items():
            if name not in after:
                over = _TIME_PASSED if one.is_over(at) else ""
                self._report(one, "enabled", at, over)
        for name, one in after.items():
            if before.get(name) != one:
                state = "disabled" if one.state == "disabled" else "draining"
                self._report(one, state, at, one.reason)

    def _report(
        self,
        hold: BackendHold,
        kind: Literal["draining", "disabled", "enabled"],
        at: float,
        why: str,
    ) -> None:
        ends = kind == "enabled"
        self._events.add(
            BackendEvent(
                time=at,
                kind=kind,
                model="",
                backend=hold.name,
                message=why,
                since=None if ends else hold.since,
                duration_s=max(0.0, at - hold.since) if ends else None,
                for_s=None if ends or hold.until is None else hold.until - at,
                by="" if ends else hold.by,
            )
        )

    async def _in_thread(self, work: Callable[[], _T], within_s: float) -> _T:
        """Raises StoreUnavailable, also while the store has not answered the last call."""
        silent = f"no answer within {within_s:g} s"
        if (last := self._hanging) is not None:
            await asyncio.wait({last}, timeout=within_s)
            if not last.done():
                raise StoreUnavailable(silent)
            last.exception()  # asyncio logs those that nothing has looked at
        future = asyncio.get_running_loop().run_in_executor(self._threads, work)
        self._hanging = cast("asyncio.Future[object]", future)
        await asyncio.wait({future}, timeout=within_s)
        if not future.done():
            raise StoreUnavailable(silent)
        self._hanging = None
        return future.result()
