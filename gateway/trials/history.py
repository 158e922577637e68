"""How experiments went, for the operator's eyes: their last reports, and their courses.

Nothing is decided by it. A report is made now and then, in a thread and never for more than a
twentieth of the time; what is shown in between is the last one. The courses are in the store.
"""

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor
from functools import partial

from msgspec import Struct

from gateway.config.experiment import Experiment
from gateway.experiments.course import Interval, Point, due
from gateway.store.base import Store
from gateway.store.errors import StoreAway
from gateway.trials.pace import Pace
from gateway.trials.report import Report, report_of

EVERY_S = 5.0


class Track(Struct, frozen=True, kw_only=True):
    """The last report of one experiment, and the course of its primary metric until then."""

    report: Report
    points: tuple[Point, ...]


class Past(Struct, frozen=True, kw_only=True):
    """How experiments went, by name.

    away: why the store could not be asked the last time, "" where it could; the tracks are then
    those of before.
    """

    tracks: Mapping[str, Track] = {}
    away: str = ""


class History:
    """The past of all experiments, kept by one process for all as long as it runs."""

    def __init__(
        self,
        store: Store,
        experiments: Callable[[], Sequence[Experiment]],
        *,
        every_s: float = EVERY_S,
        clock: Callable[[], float] = time.time,
        threads: Executor | None = None,
    ) -> None:
        """experiments: of the configuration in force. threads: that ask the store; by default the
        loop's own.
        """
        self._threads = threads
        self.past = Past()
        self._store = store
        self._experiments = experiments
        self._every_s = every_s
        self._clock = clock

    async def look(self) -> None:
        """Note how everything stands; while the store is away, it stays as it stood."""
        experiments = self._experiments()
        names = {one.name for one in experiments}
        tracks = {name: one for name, one in self.past.tracks.items() if name in names}
        away, loop = "", asyncio.get_running_loop()
        try:
            for experiment in experiments:
                track = partial(self._track, experiment)
                tracks[experiment.name] = await loop.run_in_executor(self._threads, track)
        except StoreAway as exc:
            away = str(exc)
        self.past = Past(tracks=tracks, away=away)

    def _track(self, experiment: Experiment) -> Track:
        """Blocks. Raises StoreAway."""
        report = report_of(experiment, self._store)
        return Track(report=report, points=self._points(experiment, report))

    def _points(self, experiment: Experiment, report: Report) -> tuple[Point, ...]:
        """The course, to which is added how it stands now."""
        store, place = self._store, (experiment.name, experiment.primary)
        points = store.course(*place)
        now = Point(time=self._clock(), intervals=intervals_of(report))
        if not (now.intervals and due([one.time for one in points], now.time)):
            return points
        store.note(*place, now)
        return store.course(*place)

    async def run(self) -> None:
        pace = Pace(self._every_s)
        while True:
            began = time.monotonic()
            await self.look()
            took = time.monotonic() - began
            await asyncio.sleep(pace.rest_s(took, away=bool(self.past.away)))


def intervals_of(report: Report) -> dict[str, Interval]:
    """Of the primary metric, by variant."""
    return {
        one.variant: Interval(difference=one.difference, low=one.low, high=one.high)
        for metric in report.metrics
        if metric.primary
        for one in metric.variants
        if one.difference is not None and one.low is not None and one.high is not None
    }
