"""The problems and events of a gateway, once: remembered, and written to the store.

Nothing waits for the store: while it is away, the last events are kept in memory.
"""

import asyncio
import os
import socket
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from typing import Final

from strowger_gateway.gateway.console.problems.book import ProblemBook
from strowger_gateway.gateway.console.problems.event_rows import (
    prune_events,
    put_events,
    put_problems,
)
from strowger_gateway.gateway.console.problems.happening import Happening, of_backend
from strowger_gateway.gateway.console.problems.messages import Judged, Known, KnownAsked
from strowger_gateway.gateway.console.problems.problem import GatewayProblem
from strowger_gateway.gateway.parts.leader_side import LeaderContext, LeaderSide, Work
from strowger_gateway.gateway.parts.reload_result import ReloadResult
from strowger_gateway.gateway.routing.backend_events.event import ListedEvent
from strowger_gateway.gateway.routing.backend_events.leader_side import BackendEventsLeader
from strowger_gateway.gateway.storage.sql.errors import StoreUnavailable

WRITE_S: Final = 1.0
"""Interval at which new events are written; RENEW_S, at which current problems are."""

RENEW_S: Final = 15.0
PRUNE_S: Final = 3600.0
CLOSE_S: Final = 1.0
"""The last event waits for the store for so long."""


def gateway_name() -> str:
    """Return the name of this gateway among those that share a store."""
    return f"{socket.gethostname()} ({os.getpid()})"


class ProblemsLeader(LeaderSide[Judged, None]):
    """book: what is known."""

    receives = Judged
    questions = KnownAsked

    def __init__(self, at: LeaderContext) -> None:
        self._at = at
        self.book = ProblemBook(gateway_name())
        self._threads = ThreadPoolExecutor(1, "events")
        self._written: tuple[GatewayProblem, ...] = ()
        self._written_at = self._pruned_at = float("-inf")
        self._closing = False
        at.side(BackendEventsLeader).book.on_kept = self._note_backend
        digest = at.first.digest
        self._note("started", f"started with configuration {digest}", digest)

    def on_message(self, worker: int, message: Judged) -> None:
        self.book.judge(message.problems, message.totals)

    async def answer(self, question: KnownAsked) -> Known:
        book = self.book
        return Known(
            gateway=book.gateway, problems=tuple(book.current), events=tuple(book.newest())
        )

    def reloaded(self, result: ReloadResult) -> None:
        if result.outcome == "applied":
            text = f"configuration {result.digest} is in force ({result.trigger})"
            self._note("reloaded", text, result.digest, result.trigger)
        elif result.rejected:
            why = "; ".join(result.problems)
            text = f"the configuration is rejected: {why}"
            self._note("reload_rejected", text, message=why, bad=True)

    def left(self, worker: int) -> None:
        if not self._closing:
            self._note("worker_exited", f"worker {worker} has exited", str(worker))

    def works(self) -> Sequence[Work]:
        return (("events", self._write_all),)

    async def release(self) -> None:
        self._closing = True
        self._note("stopped", "a new gateway takes over")

    async def close(self) -> None:
        if not self._closing:
            self._note("stopped", "stopped")
        with suppress(StoreUnavailable, TimeoutError):
            async with asyncio.timeout(CLOSE_S):
                await self._write()
        self._threads.shutdown(wait=False, cancel_futures=True)

    def _note(
        self, kind: str, text: str, subject: str = "", message: str = "", *, bad: bool = False
    ) -> None:
        tone = "bad" if bad else ""
        one = Happening(
            time=time.time(),
            kind=kind,
            gateway=self.book.gateway,
            subject=subject,
            message=message,
            text=text,
            tone=tone,
        )
        self.book.add(one)

    def _note_backend(self, listed: ListedEvent) -> None:
        self.book.add(of_backend(listed, self.book.gateway))

    async def _write_all(self) -> None:
        while True:
            await asyncio.sleep(WRITE_S)
            with suppress(StoreUnavailable):
                await self._write()

    async def _write(self) -> None:
        """Write what the store lacks. Raises StoreUnavailable."""
        book, at = self.book, time.time()
        waiting, problems = tuple(book.unstored), tuple(book.current)
        renew = bool(problems) and at >= self._written_at + RENEW_S
        prune = at >= self._pruned_at + PRUNE_S
        if not (waiting or renew or prune or problems != self._written):
            return
        changed = problems if renew or problems != self._written else None
        work = partial(self._put, waiting, changed, prune)
        await asyncio.get_running_loop().run_in_executor(self._threads, work)
        while waiting and book.unstored and book.unstored[0][0] <= waiting[-1][0]:
            book.unstored.popleft()
        if changed is not None:
            self._written, self._written_at = problems, at
        if prune:
            self._pruned_at = at

    def _put(
        self,
        events: Sequence[tuple[int, Happening]],
        problems: Sequence[GatewayProblem] | None,
        prune: bool,
    ) -> None:
        """problems: `None` if the store has them. Blocks. Raises StoreUnavailable."""
        database, at = self._at.store.database, time.time()
        if events:
            put_events(database, events)
        if problems is not None:
            put_problems(database, self.book.gateway, problems, at)
        if prune:
            prune_events(database, at)
