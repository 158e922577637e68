"""How experiments went, for the operator's eyes: their last reports, and their courses.

Nothing is decided by it. A report is made now and then, in a thread and never for more than a
twentieth of the time; what is shown in between is the last one. The courses are in the store.
"""

import asyncio
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import Executor
from functools import partial
from math import inf

from msgspec import Struct

from gateway.config.schema_experiment import Experiment
from gateway.experiments.service.polling_interval import PollingInterval
from gateway.experiments.service.removed import removed_experiments
from gateway.experiments.service.report import Report, report_of
from gateway.experiments.statistics.interval_history import Interval, Point, needs_point
from gateway.store.base import Store
from gateway.store.errors import StoreUnavailable

EVERY_S = 5.0

MAX_REMOVED = 10
"""Experiments that the configuration has no more, the last ones; others are asked for by name."""

REMOVED_BUDGET_S = 0.25
REMOVED_MAX_AGE_S = 3600.0
"""Votes may still come for requests that are over: so old may the report of a former one be."""


class Track(Struct, frozen=True, kw_only=True):
    """The last report of one experiment, and the course of its primary metric until then."""

    report: Report
    points: tuple[Point, ...]


class ExperimentHistory(Struct, frozen=True, kw_only=True):
    """How experiments went, by name.

    former: those that the configuration has no more, the last one first.
    away: why the store could not be asked the last time, "" where it could; the tracks are then
    those of before.
    """

    tracks: Mapping[str, Track] = {}
    removed: Mapping[str, Track] = {}
    unavailable: str = ""


class HistoryRecorder:
    """The past of all experiments, kept by one process for all as long as it runs."""

    def __init__(
        self,
        store: Store,
        experiments: Callable[[], Sequence[Experiment]],
        *,
        shown: Callable[[], bool] = lambda: True,
        every_s: float = EVERY_S,
        clock: Callable[[], float] = time.time,
        threads: Executor | None = None,
    ) -> None:
        """experiments: of the configuration in force. shown: whether anybody may see it.

        threads: that ask the store; by default the loop's own.
        """
        self._threads = threads
        self.latest = ExperimentHistory()
        self._store = store
        self._experiments = experiments
        self._shown = shown
        self._made: dict[tuple[str, int, float], float] = {}
        self._every_s = every_s
        self._clock = clock

    async def update(self) -> None:
        """Note how everything stands; while the store is away, it stays as it stood."""
        if not self._shown():
            self.latest = ExperimentHistory()
            return
        experiments = self._experiments()
        names = {one.name for one in experiments}
        tracks = {name: one for name, one in self.latest.tracks.items() if name in names}
        over = {name: one for name, one in self.latest.removed.items() if name not in names}
        away, loop = "", asyncio.get_running_loop()
        try:
            for experiment in experiments:
                track = partial(self._track, experiment)
                tracks[experiment.name] = await loop.run_in_executor(self._threads, track)
            again = partial(self._removed_tracks, frozenset(names), over)
            over = await loop.run_in_executor(self._threads, again)
        except StoreUnavailable as exc:
            away = str(exc)
        self.latest = ExperimentHistory(tracks=tracks, removed=over, unavailable=away)

    def _track(self, experiment: Experiment) -> Track:
        """Blocks. Raises StoreUnavailable."""
        report = report_of(experiment, self._store)
        return Track(report=report, points=self._points(experiment, report))

    def _removed_tracks(
        self, configured: Collection[str], known: Mapping[str, Track]
    ) -> Mapping[str, Track]:
        """Those of before; of the others, and of those that are no longer true, some are made.

        No more of them at a look than can be made in AT_ONCE_S, and one at least: there may be
        many, and what runs is of more interest. Blocks. Raises StoreUnavailable.
        """
        found = dict(known)
        listed = [one for one in removed_experiments(self._store, configured) if one.experiment][
            :MAX_REMOVED
        ]
        now, before, began = self._clock(), self._made, time.monotonic()
        self._made = {one.state: before[one.state] for one in listed if one.state in before}
        for one in listed:
            old = (
                one.name not in found or now - self._made.get(one.state, -inf) >= REMOVED_MAX_AGE_S
            )
            if one.experiment is not None and old:
                report = report_of(one.experiment, self._store, removed=True)
                points = self._store.interval_points(one.name, one.experiment.primary)
                found[one.name] = Track(report=report, points=points)
                self._made[one.state] = now
                if time.monotonic() - began > REMOVED_BUDGET_S:
                    break
        return {one.name: found[one.name] for one in listed if one.name in found}

    def _points(self, experiment: Experiment, report: Report) -> tuple[Point, ...]:
        """The course, to which is added how it stands now."""
        store, place = self._store, (experiment.name, experiment.primary)
        points = store.interval_points(*place)
        now = Point(time=self._clock(), intervals=intervals_of(report))
        if not (now.intervals and needs_point([one.time for one in points], now.time)):
            return points
        store.add_interval_point(*place, now)
        return store.interval_points(*place)

    async def run(self) -> None:
        pace = PollingInterval(self._every_s)
        while True:
            began = time.monotonic()
            await self.update()
            took = time.monotonic() - began
            await asyncio.sleep(pace.wait_s(took, away=bool(self.latest.unavailable)))


def intervals_of(report: Report) -> dict[str, Interval]:
    """Of the primary metric, by variant."""
    return {
        one.variant: Interval(difference=one.difference, low=one.low, high=one.high)
        for metric in report.metrics
        if metric.primary
        for one in metric.variants
        if one.difference is not None and one.low is not None and one.high is not None
    }
