"""Ask the caches of all processes, in the leader."""

import asyncio
from typing import Final

from strowger_gateway.gateway.content.cache.inspection.messages import (
    MemoryAsked,
    MemoryReport,
    MemoryState,
    StateWanted,
    added,
)
from strowger_gateway.gateway.parts.leader_side import LeaderContext, LeaderSide

ANSWER_S: Final = 2.0
"""How long a process may take, which does other work in the meantime."""


class CacheLeader(LeaderSide[MemoryReport, StateWanted]):
    receives, questions = MemoryReport, MemoryAsked

    def __init__(self, at: LeaderContext) -> None:
        self._broadcast = at.broadcast
        self._workers: set[int] = set()
        self._last = 0
        self._waiting: dict[int, _Answers] = {}

    def joined(self, worker: int, send: object) -> None:
        self._workers.add(worker)

    def left(self, worker: int) -> None:
        self._workers.discard(worker)
        for one in self._waiting.values():
            one.left(worker)

    def on_message(self, worker: int, message: MemoryReport) -> None:
        waiting = self._waiting.get(message.id)
        if waiting is not None:
            waiting.add(worker, message)

    async def answer(self, question: MemoryAsked) -> MemoryState:
        self._last += 1
        id = self._last
        waiting = self._waiting[id] = _Answers(self._workers)
        try:
            self._broadcast(StateWanted(id=id, clear=question.clear, model=question.model))
            complete = await waiting.all_within(ANSWER_S)
        finally:
            del self._waiting[id]
        return added(waiting.reports.values(), complete=complete)


class _Answers:
    """The reports of those processes that were there when they were asked."""

    def __init__(self, workers: set[int]) -> None:
        self.reports: dict[int, MemoryReport] = {}
        self._missing = set(workers)
        self._whole = asyncio.Event()
        self._look()

    def add(self, worker: int, report: MemoryReport) -> None:
        self.reports[worker] = report
        self.left(worker)

    def left(self, worker: int) -> None:
        self._missing.discard(worker)
        self._look()

    async def all_within(self, seconds: float) -> bool:
        try:
            async with asyncio.timeout(seconds):
                await self._whole.wait()
        except TimeoutError:
            return False
        return True

    def _look(self) -> None:
        if not self._missing:
            self._whole.set()
