"""How experiments went, for the operator's eyes: their last reports, and their courses.

Nothing is decided by it. A report is made now and then, in a thread and never for more than a
twentieth of the time; what is shown in between is the last one. The courses are in the store.
"""

import asyncio
import time
from collections.abc import Callable

from gateway.config.experiment import Experiment
from gateway.experiments.course import Interval, Point, due
from gateway.store.errors import StoreAway
from gateway.trials.report import Report
from gateway.trials.trials import Trials

EVERY_S = 5.0
_EFFORT = 20.0
"""So many times as long as a report took, none is made."""


class Track:
    """The last report of one experiment, and the course of its primary metric until then."""

    def __init__(self, report: Report, points: tuple[Point, ...]) -> None:
        self.report = report
        self.points = points


class History:
    """The tracks of all experiments. `start` it with the process and `close` it at its end.

    away: why the store could not be asked the last time, "" where it could; the tracks are then
    those of before.
    """

    def __init__(
        self,
        trials: Trials,
        *,
        writes: bool,
        every_s: float = EVERY_S,
        clock: Callable[[], float] = time.time,
    ) -> None:
        """writes: this process adds to the courses; every other one only shows them."""
        self.tracks: dict[str, Track] = {}
        self.away = ""
        self._trials = trials
        self._writes = writes
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
                self.tracks[experiment.name] = await self._track(experiment)
            except StoreAway as exc:
                self.away = str(exc)
                return
        self.away = ""

    async def _track(self, experiment: Experiment) -> Track:
        """Raises StoreAway."""
        report = await self._trials.report(experiment)
        points = await asyncio.to_thread(self._points, experiment, report)
        return Track(report, points)

    def _points(self, experiment: Experiment, report: Report) -> tuple[Point, ...]:
        """Blocks. The course, to which this process adds how it stands now."""
        store, place = self._trials.store, (experiment.name, experiment.primary)
        points = store.course(*place)
        now = Point(time=self._clock(), intervals=intervals_of(report))
        if not (self._writes and now.intervals and due([one.time for one in points], now.time)):
            return points
        store.note(*place, now)
        return store.course(*place)

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
