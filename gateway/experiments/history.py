"""The history of experiments for the admin page: last reports, and how the intervals moved.

It is for display only; no decision depends on it. Reports are made in a thread, for at most a
twentieth of the time, and the last one is shown in between. Interval points are in the store.
"""

import asyncio
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import Executor
from functools import partial
from math import inf

from msgspec import Struct

from strowger_gateway.gateway.config.schema.experiment import Experiment
from strowger_gateway.gateway.experiments.polling_interval import PollingInterval
from strowger_gateway.gateway.experiments.removed import removed_experiments
from strowger_gateway.gateway.experiments.report import Report, report_of
from strowger_gateway.gateway.statistics.interval_history import (
    Interval,
    Point,
    needs_point,
)
from strowger_gateway.gateway.storage.sql.base import Store
from strowger_gateway.gateway.storage.sql.errors import StoreUnavailable

EVERY_S = 5.0

MAX_REMOVED = 10
"""Removed experiments to show, the most recent ones; others are available by name."""

REMOVED_BUDGET_S = 0.25
"""Time per update for reports on removed experiments."""

REMOVED_MAX_AGE_S = 3600.0
"""Maximum age of a report on a removed experiment: votes on its requests may still arrive."""


class Track(Struct, frozen=True, kw_only=True):
    """The last report of one experiment, and the interval history of its primary metric."""

    report: Report
    points: tuple[Point, ...]


class ExperimentHistory(Struct, frozen=True, kw_only=True):
    """The history of experiments, by name.

    removed:     those removed from the configuration, the most recent first.
    unavailable: why the last update could not read the store, "" if it could; the tracks are then
                 those of the update before.
    """

    tracks: Mapping[str, Track] = {}
    removed: Mapping[str, Track] = {}
    unavailable: str = ""


class HistoryRecorder:
    """The history of all experiments, recorded by one process for all the others."""

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
        """experiments: returns those of the current configuration.

        shown:   returns whether the history can be shown; if not, nothing is recorded.
        threads: for calls to the store; `None`: the event loop's default pool.
        """
        self._threads = threads
        self.latest = ExperimentHistory()
        self._store = store
        self._experiments = experiments
        self._shown = shown
        self._made: dict[tuple[str, int, float, float], float] = {}
        self._every_s = every_s
        self._clock = clock

    async def update(self) -> None:
        """Update all tracks; while the store is unreachable, they stay as they are."""
        if not self._shown():
            self.latest = ExperimentHistory()
            return
        experiments = self._experiments()
        names = {one.name for one in experiments}
        tracks = {name: one for name, one in self.latest.tracks.items() if name in names}
        removed = {name: one for name, one in self.latest.removed.items() if name not in names}
        unavailable, loop = "", asyncio.get_running_loop()
        try:
            for experiment in experiments:
                track = partial(self._track, experiment)
                tracks[experiment.name] = await loop.run_in_executor(self._threads, track)
            again = partial(self._removed_tracks, frozenset(names), removed)
            removed = await loop.run_in_executor(self._threads, again)
        except StoreUnavailable as exc:
            unavailable = str(exc)
        self.latest = ExperimentHistory(tracks=tracks, removed=removed, unavailable=unavailable)

    def _track(self, experiment: Experiment) -> Track:
        """Build the track of an experiment; blocks. Raises StoreUnavailable."""
        report = report_of(experiment, self._store)
        return Track(report=report, points=self._points(experiment, report))

    def _removed_tracks(
        self, configured: Collection[str], known: Mapping[str, Track]
    ) -> Mapping[str, Track]:
        """Return the known tracks of removed experiments, and build some missing or outdated ones.

        At least one is built per update, and no more after REMOVED_BUDGET_S: there may be many, and
        running experiments matter more. Blocks. Raises StoreUnavailable.
        """
        found = dict(known)
        listed = [one for one in removed_experiments(self._store, configured) if one.experiment][
            :MAX_REMOVED
        ]
        now, before, started = self._clock(), self._made, time.monotonic()
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
                if time.monotonic() - started > REMOVED_BUDGET_S:
                    break
        return {one.name: found[one.name] for one in listed if one.name in found}

    def _points(self, experiment: Experiment, report: Report) -> tuple[Point, ...]:
        """Add the current intervals to the history if it needs a point; return the history."""
        store, place = self._store, (experiment.name, experiment.primary)
        points = store.interval_points(*place)
        now = Point(time=self._clock(), intervals=intervals_of(report))
        if not (now.intervals and needs_point([one.time for one in points], now.time)):
            return points
        store.add_interval_point(*place, now)
        return store.interval_points(*place)

    async def run(self) -> None:
        polling = PollingInterval(self._every_s)
        while True:
            started = time.monotonic()
            await self.update()
            took = time.monotonic() - started
            await asyncio.sleep(polling.wait_s(took, unavailable=bool(self.latest.unavailable)))


def intervals_of(report: Report) -> dict[str, Interval]:
    """Return the intervals of the primary metric, by variant."""
    return {
        one.variant: Interval(difference=one.difference, low=one.low, high=one.high)
        for metric in report.metrics
        if metric.primary
        for one in metric.variants
        if one.difference is not None and one.low is not None and one.high is not None
    }
