"""How an experiment's intervals moved since this process began: for the operator's eyes alone.

Nothing is decided by it, and nothing of it is stored. A report is made now and then, in a thread
and never for more than a twentieth of the time; what is shown in between is the last one.
"""

import asyncio
import time
from collections.abc import Callable, Mapping

from msgspec import Struct

from gateway.store.errors import StoreAway
from gateway.trials.report import Report
from gateway.trials.trials import Trials

POINTS = 240
"""Beyond so many, every second one is dropped and the next come half as often."""
EVERY_S = 5.0
_EFFORT = 20.0
"""So many times as long as a report took, none is made."""


class Interval(Struct, frozen=True, kw_only=True):
    """Of a variant's primary metric against control, as people read it: for times a part."""

    difference: float
    low: float
    high: float


class Point(Struct, frozen=True, kw_only=True):
    """Variants without an interval yet are not in it. time: Unix seconds."""

    time: float
    intervals: Mapping[str, Interval]


class Track:
    """The points of one experiment, and its last report."""

    def __init__(self, report: Report) -> None:
        self.report = report
        self.points: list[Point] = []
        self._apart_s = 0.0

    def note(self, report: Report, at: float) -> None:
        self.report = report
        intervals = intervals_of(report)
        if not intervals or (self.points and at < self.points[-1].time + self._apart_s):
            return
        self.points.append(Point(time=at, intervals=intervals))
        if len(self.points) > POINTS:
            del self.points[1::2]
            self._apart_s = 2 * (self.points[-1].time - self.points[0].time) / POINTS


class History:
    """The tracks of all experiments. `start` it with the process and `close` it at its end."""

    def __init__(
        self, trials: Trials, *, every_s: float = EVERY_S, clock: Callable[[], float] = time.time
    ) -> None:
        self.tracks: dict[str, Track] = {}
        self._trials = trials
        self._every_s = every_s
        self._clock = clock
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        self._task = asyncio.create_task(self._keep())

    async def close(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def look(self) -> None:
        """Note how everything stands; while the store is away, it stays as it stood."""
        experiments = self._trials.experiments
        for name in self.tracks.keys() - {one.name for one in experiments}:
            del self.tracks[name]
        for experiment in experiments:
            try:
                report = await self._trials.report(experiment)
            except StoreAway:
                return
            track = self.tracks.setdefault(experiment.name, Track(report))
            track.note(report, self._clock())

    async def _keep(self) -> None:
        while True:
            began = time.monotonic()
            await self.look()
            await asyncio.sleep(max(self._every_s, _EFFORT * (time.monotonic() - began)))


def intervals_of(report: Report) -> dict[str, Interval]:
    """Of the primary metric, by variant."""
    return {
        one.variant: Interval(difference=one.difference, low=one.low, high=one.high)
        for metric in report.metrics
        if metric.primary
        for one in metric.variants
        if one.difference is not None and one.low is not None and one.high is not None
    }
