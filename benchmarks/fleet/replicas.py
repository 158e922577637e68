"""Model servers in virtual time: so many requests at a time, and the others wait there."""

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Final

SLOTS: Final = 16
"""Requests that a replica answers at the same time."""


class Job:
    """One attempt at a replica. gone: its gateway or its replica has given it up.

    started: called when it has content; ended: when it is complete; failed: when the replica stops.
    """

    __slots__ = ("duration_s", "ended", "failed", "gone", "started")

    def __init__(
        self,
        duration_s: float,
        started: Callable[[], None],
        ended: Callable[[], None],
        failed: Callable[[], None],
    ) -> None:
        self.duration_s = duration_s
        self.started = started
        self.ended = ended
        self.failed = failed
        self.gone = False


class Server:
    """One replica. up: it accepts requests. received: how many it has accepted."""

    def __init__(self, address: str, loop: asyncio.AbstractEventLoop) -> None:
        self.address = address
        self.up = True
        self.received = self.most = 0
        self._loop = loop
        self._waiting: deque[Job] = deque()
        self._running: set[Job] = set()

    @property
    def requests(self) -> int:
        return len(self._running) + len(self._waiting)

    def accept(self, job: Job) -> None:
        self.received += 1
        self._waiting.append(job)
        self._next()
        self.most = max(self.most, self.requests)

    def _next(self) -> None:
        while self._waiting and len(self._running) < SLOTS:
            job = self._waiting.popleft()
            if not job.gone:
                self._running.add(job)
                job.started()
                self._loop.call_later(job.duration_s, self._end, job)

    def _end(self, job: Job) -> None:
        if job not in self._running:
            return
        self._running.discard(job)
        if not job.gone:
            job.ended()
        self._next()

    def stop(self) -> None:
        """Break what runs and waits, and accept nothing more."""
        self.up = False
        jobs = [*self._running, *self._waiting]
        self._running.clear()
        self._waiting.clear()
        for job in jobs:
            if not job.gone:
                job.gone = True
                job.failed()
