"""The spend caps once per gateway: what backends have cost, in all gateways, and what is held."""

import asyncio
import logging
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from typing import Final, Literal

from strowger_gateway.gateway.governance.budgets.calendar import period_of
from strowger_gateway.gateway.governance.spend_caps.messages import BackendCosts, CapsInForce
from strowger_gateway.gateway.governance.spend_caps.metrics import CapCollector
from strowger_gateway.gateway.governance.spend_caps.spent_book import SpentBook, StoredCosts
from strowger_gateway.gateway.governance.spend_caps.standing import capped, holds_of, standings
from strowger_gateway.gateway.parts.leader_side import LeaderContext, LeaderSide, Work
from strowger_gateway.gateway.routing.backend_events.event import BackendEvent
from strowger_gateway.gateway.routing.backend_events.leader_side import BackendEventsLeader
from strowger_gateway.gateway.routing.resilience.backend_hold import BackendHold
from strowger_gateway.gateway.storage.sql.errors import StoreUnavailable

LOOK_S: Final = 2.0
"""Interval between looks at the store."""

FIRST_S: Final = 2.0
"""Time for the first look, before the gateway serves."""

_log = logging.getLogger("strowger.spend_caps")


class SpendCapsLeader(LeaderSide[BackendCosts, CapsInForce]):
    """latest: what processes have."""

    receives = BackendCosts

    def __init__(self, at: LeaderContext) -> None:
        self.latest = CapsInForce()
        self._at = at
        self._book = SpentBook(at.imported_at)
        self._events = at.side(BackendEventsLeader).book
        self._threads = ThreadPoolExecutor(1, "spend-caps")
        self._reading: asyncio.Future[StoredCosts] | None = None
        self._since: dict[str, float] = {}
        self._unavailable = False
        at.registry.register(CapCollector(lambda: self.latest.standings))

    async def start(self) -> None:
        await self._look(FIRST_S)

    def first(self) -> CapsInForce:
        return self.latest

    def on_message(self, worker: int, message: BackendCosts) -> None:
        self._book.add(message.writer, message.batch, message.at, message.nanos)
        self._judge()

    def works(self) -> Sequence[Work]:
        return (("spend caps", self._follow),)

    async def close(self) -> None:
        self._threads.shutdown(wait=False, cancel_futures=True)

    async def _follow(self) -> None:
        while True:
            await asyncio.sleep(LOOK_S)
            await self._look(LOOK_S)

    async def _look(self, within_s: float) -> None:
        """Read the store, if there are caps, and judge them; an outage leaves what is known."""
        now, config = time.time(), self._at.config()
        periods = {period_of(cap.per, cap.time_zone, now) for _, cap in capped(config)}
        if periods and self._reading is None:
            read = partial(self._book.read, self._at.store.database, periods)
            self._reading = asyncio.get_running_loop().run_in_executor(self._threads, read)
        if self._reading is not None:
            await asyncio.wait({self._reading}, timeout=within_s)
            if self._reading.done():
                read, self._reading = self._reading, None
                with suppress(StoreUnavailable):
                    self._note(read.exception())
                    self._book.learn(read.result())
        self._judge()

    def _note(self, failure: BaseException | None) -> None:
        """Log when the store goes and comes back. Raises what is no outage."""
        away = isinstance(failure, StoreUnavailable)
        if away and not self._unavailable:
            _log.error("store unreachable; spend caps go on with what is known: %s", failure)
        elif self._unavailable and not away:
            _log.warning("store reachable again; spend caps are up to date")
        self._unavailable = away
        if failure is not None:
            raise failure

    def _judge(self) -> None:
        """Put what the caps decide into effect, and report what changes."""
        at = time.time()
        found = standings(self._at.config(), self._book.spent, at)
        held = {one for cap in found if cap.used_up for one in cap.backends}
        self._since = {name: self._since.get(name, at) for name in held}
        new = CapsInForce(holds=holds_of(found, self._since), standings=found)
        if new == self.latest:
            return
        before = {one.name: one for one in self.latest.holds}
        after = {one.name: one for one in new.holds}
        self.latest = new
        self._at.broadcast(new)
        for name, one in before.items():
            if name not in after:
                self._report(one, "within_budget", at)
        for name, one in after.items():
            if name not in before:
                self._report(one, "over_budget", at)

    def _report(
        self, hold: BackendHold, kind: Literal["over_budget", "within_budget"], at: float
    ) -> None:
        ends = kind == "within_budget"
        self._events.add(
            BackendEvent(
                time=at,
                kind=kind,
                model="",
                backend=hold.name,
                message="" if ends else hold.reason,
                since=None if ends else hold.since,
                duration_s=max(0.0, at - hold.since) if ends else None,
                for_s=None if ends or hold.until is None else hold.until - at,
            )
        )
