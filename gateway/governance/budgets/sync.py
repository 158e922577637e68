"""Keep the accounts of a gateway in step with the store, and share budgets with other gateways.

A gateway holds an amount of each account it uses; all gateways together never hold more than the
budget has left. Records that are imported, late ones too, count with the next reading.
"""

import asyncio
import logging
import time
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from secrets import token_hex
from typing import Final, TypeVar, cast

from msgspec import Struct

from strowger_gateway.gateway.governance.budgets.accounts import BudgetAccount
from strowger_gateway.gateway.governance.budgets.lease_leader import BudgetLeaseLeader, Refusal
from strowger_gateway.gateway.governance.budgets.refusals import shown
from strowger_gateway.gateway.governance.leases.leader import Waiting
from strowger_gateway.gateway.governance.leases.pool import PART
from strowger_gateway.gateway.platform.background import OnCrash, ignore_crash, keep_running
from strowger_gateway.gateway.storage.sql.errors import StoreUnavailable
from strowger_gateway.gateway.storage.sql.spend_rows import NANOS, Holding, SpendReading, SpendRows

EVERY_S: Final = 1.0
"""Interval between readings while a budget is used."""

IDLE_S: Final = 5.0
"""The same while none is used."""

ACTIVE_S: Final = 2.0
"""A gateway holds more than it needs for so long after a request lacked room."""

ANSWER_S: Final = 2.0
"""Silence of the store after which it counts as unreachable."""

DEAD_S: Final = 10.0
"""A gateway that holds something and shows no sign of life for so long has died."""

MARGIN_S: Final = 1.0
"""An import that began so long after a process died had all of its records."""

MOST_TRIES: Final = 20
"""Readings for one request: other gateways, or records, may come between reading and holding."""

_log = logging.getLogger("strowger.budgets")
_T = TypeVar("_T")


class _Life(Struct, eq=False):
    """The last sign of life of another gateway. at: monotonic seconds."""

    beat: int
    at: float


class BudgetSync:
    """`start` it before the first request, and `close` it after the last.

    lost_nanos, expired: what killed processes had recorded and lost, and leases that have expired.
    """

    def __init__(
        self, leader: BudgetLeaseLeader, rows: SpendRows, imported_at: Callable[[], float | None]
    ) -> None:
        """imported_at: when the last complete import began, monotonic seconds; `None`: never."""
        self._leader = leader
        self._rows = rows
        self._imported_at = imported_at
        self._id = token_hex(8)
        self._beat = 0
        self._held: dict[tuple[str, str], int] = {}
        self._lives: dict[str, _Life] = {}
        self._threads = ThreadPoolExecutor(1, "budgets")
        self._hanging: asyncio.Future[object] | None = None
        self._following: asyncio.Task[None] | None = None
        self.lost_nanos = 0
        self.expired = 0

    async def start(self, crashed: OnCrash = ignore_crash) -> None:
        """Read what was spent once, then follow the store until `close`."""
        if self._leader.any:
            await self._sync([])
        self._following = asyncio.create_task(keep_running("budgets", self._follow, crashed))

    async def close(self) -> None:
        """Give back what this gateway holds, if the store answers soon."""
        if self._following is not None:
            self._following.cancel()
            await asyncio.gather(self._following, return_exceptions=True)
        if self._held:
            with suppress(StoreUnavailable):
                await self._in_thread(partial(self._rows.leave, self._id))
        self._threads.shutdown(wait=False, cancel_futures=True)

    async def _follow(self) -> None:
        leader, due = self._leader, 0.0
        while True:
            with suppress(TimeoutError):
                async with asyncio.timeout(EVERY_S):
                    await leader.wake.wait()
            leader.wake.clear()
            waiting, leader.waiting = leader.waiting, []
            at = time.monotonic()
            used = any(one.mine or one.held for one in leader.accounts)
            if not waiting and (not leader.any or (not used and at < due)):
                continue
            due = at + IDLE_S
            await self._sync(waiting)
            for one in waiting:
                one.tries += 1
                if one.tries > MOST_TRIES:
                    leader.give_up(one, "too many gateways change them at once")
                else:
                    leader.decide(one)

    async def _sync(self, waiting: list[Waiting[Refusal]]) -> None:
        """Read the store, and hold what is needed."""
        leader = self._leader
        leader.refresh()
        leader.accounts.turn(leader.clock())
        imported_at = self._imported_at()
        try:
            reading = await self._read()
            self._others(reading)
            leader.accounts.forget_idle()
            await self._report_lost(imported_at)
            await self._hold(waiting)
        except StoreUnavailable as exc:
            if not leader.unavailable:
                _log.error("store unreachable; budgets count what this gateway knows: %s", exc)
            leader.unavailable = True
            return
        if leader.unavailable:
            _log.warning("store reachable again; budgets are up to date")
        leader.unavailable = False

    async def _read(self) -> SpendReading:
        accounts = self._leader.accounts
        while True:
            began = time.monotonic()
            periods = accounts.windows()
            windows = [(period.begin, period.end) for period in periods]
            reading = await self._in_thread(
                partial(self._rows.read, accounts.version, windows, self._id)
            )
            if accounts.take(reading, periods):
                self._leader.read_at = began
                return reading

    def _others(self, reading: SpendReading) -> None:
        """Count what other gateways hold that live."""
        at = time.monotonic()
        for holder, beat in reading.beats.items():
            known = self._lives.get(holder)
            if known is None or known.beat != beat:
                self._lives[holder] = _Life(beat, at)
        for holder in set(self._lives) - set(reading.beats):
            del self._lives[holder]
        others: dict[tuple[str, str], int] = {}
        for (holder, *held), amount in reading.held.items():
            if not self._is_dead(holder, at):
                place = held[0], held[1]
                others[place] = others.get(place, 0) + amount
        for account in self._leader.accounts:
            account.others = others.get((account.budget.name, account.subject), 0)

    def _is_dead(self, holder: str, at: float) -> bool:
        life = self._lives.get(holder)
        return life is not None and at - life.at > DEAD_S

    async def _report_lost(self, imported_at: float | None) -> None:
        """Drop what dead gateways hold, and what dead workers had leased and not recorded."""
        at = time.monotonic()
        for holder in [one for one in self._lives if self._is_dead(one, at)]:
            if await self._in_thread(partial(self._rows.leave, holder)):
                self.expired += 1
                _log.warning("a gateway has died: what it held of budgets has expired")
            self._lives.pop(holder, None)
        for one in tuple(self._leader.lost):
            if imported_at is not None and imported_at > one.died + MARGIN_S:
                self._leader.lost.remove(one)
                self._expire(one.number, one.writer)

    def _expire(self, number: int, writer: str) -> None:
        """A worker's records are imported: what it leased and did not record has expired."""
        nanos = self._leader.accounts.drop(writer)
        expired: list[str] = []
        for account in self._leader.accounts:
            loan = account.loans.pop(number, None)
            if loan is not None:
                account.give_back(loan.amount)
                expired.append(f"{shown(account.budget, loan.amount)} of {account.budget.name!r}")
        self.lost_nanos += nanos
        self.expired += bool(expired)
        if nanos or expired:
            _log.warning(
                "worker lost: records of %.9f USD are gone, and its leases have expired (%s)",
                nanos / NANOS,
                ", ".join(expired) or "none",
            )

    async def _hold(self, waiting: list[Waiting[Refusal]]) -> None:
        """Hold what is used, what waiting requests need, and some more while there is much."""
        wanted: dict[tuple[str, str], Holding] = {}
        needs: dict[tuple[str, str], list[int]] = {}
        for one in waiting:
            for need in one.ask.needs:
                needs.setdefault(need.place[:2], []).append(need.amount)
        for account in self._leader.accounts:
            place = account.budget.name, account.subject
            amount = _wanted(account, needs.get(place, ()))
            if amount or place in self._held:
                wanted[place] = Holding(
                    budget=place[0],
                    subject=place[1],
                    amount=amount,
                    least=account.mine,
                    free=account.limit - account.stored,
                    counts=account.counts,
                )
        for name, subject in self._held:  # of budgets that a reload has removed
            gone = Holding(
                budget=name, subject=subject, amount=0, least=0, free=0, counts=lambda _: 0
            )
            wanted.setdefault((name, subject), gone)
        if not wanted:
            return
        self._beat += 1
        version, rows = self._leader.accounts.version, list(wanted.values())
        held = await self._in_thread(partial(self._rows.hold, self._id, self._beat, version, rows))
        self._held = {place: amount for place, amount in zip(wanted, held, strict=True) if amount}
        for account in self._leader.accounts:
            account.held = self._held.get((account.budget.name, account.subject), 0)
        if not self._held:
            await self._in_thread(partial(self._rows.leave, self._id))

    async def _in_thread(self, work: Callable[[], _T]) -> _T:
        """Raises StoreUnavailable, also while the store has not answered the last call."""
        if (last := self._hanging) is not None:
            await asyncio.wait({last}, timeout=ANSWER_S)
            if not last.done():
                raise StoreUnavailable("no answer")
            last.exception()  # asyncio logs those that nothing has looked at
        future = asyncio.get_running_loop().run_in_executor(self._threads, work)
        self._hanging = cast("asyncio.Future[object]", future)
        await asyncio.wait({future}, timeout=ANSWER_S)
        if not future.done():
            raise StoreUnavailable(f"no answer within {ANSWER_S:g} s")
        self._hanging = None
        return future.result()


def _wanted(account: BudgetAccount, needs: Iterable[int]) -> int:
    """What to hold of an account. needs: of the requests that wait for it."""
    mine, left, most = account.mine, account.left, 0
    for need in needs:
        if need <= left:
            mine, left = mine + need, left - need
            most = max(most, need)
    # Near the end of a budget, what one gateway holds in advance would make others refuse.
    if left > account.limit // 8 and time.monotonic() - account.asked_at < ACTIVE_S:
        mine += max(0, min(left // 4, max(account.limit // PART, 4 * most)))
    return mine
