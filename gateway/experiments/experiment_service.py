"""The experiments of one process: poll the store in a thread, and update the request path."""

import asyncio
import contextlib
import logging
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TypeVar

from strowger_gateway.gateway.config.schema.experiment import Experiment
from strowger_gateway.gateway.experiments.removed import (
    RemovedExperiment,
    removed_experiments,
)
from strowger_gateway.gateway.experiments.report import Report, report_of
from strowger_gateway.gateway.experiments.state_poller import ExperimentPoller
from strowger_gateway.gateway.experiments.trust.exclusions import (
    ExclusionReport,
    add_exclusion,
    end_exclusion,
    exclusion_reports,
)
from strowger_gateway.gateway.platform.background import OnCrash, ignore_crash, keep_running
from strowger_gateway.gateway.routing.planning.enrolment import (
    ExperimentState,
    ExperimentStatus,
    fingerprint,
)
from strowger_gateway.gateway.storage.sql.errors import StoreUnavailable
from strowger_gateway.gateway.storage.sql.experiments.exclusions import ExcludedName, Kind
from strowger_gateway.gateway.storage.sql.rows import Recorder
from strowger_gateway.gateway.storage.store_access import StoreAccess

_log = logging.getLogger("strowger.experiments")
POLL_INTERVAL_S = 1.0
"""Interval between polls of the store; with it a pause reaches every process within 2 s."""

FIRST_ANSWER_S = 2.0
"""Timeout of the store's first answer at start-up; without an answer, control serves everyone."""

_T = TypeVar("_T")


class ExperimentService:
    """`start` it before the first request and `close` it after the last.

    While the store is unreachable, experiments continue in their last known state; if it has never
    answered, control serves everyone and no unit is enrolled.
    """

    def __init__(
        self,
        access: StoreAccess,
        recorder: Recorder,
        state: ExperimentState,
        experiments: Callable[[], Sequence[Experiment]],
        *,
        announces: bool = True,
        poll_interval_s: float = POLL_INTERVAL_S,
        crashed: OnCrash = ignore_crash,
    ) -> None:
        """access: to the store; polls note in it whether the store is reachable.

        experiments: returns those of the current configuration. announces: log state changes.
        """
        self.recorder = recorder
        self._access = access
        self._state = state
        self._experiments = experiments
        self._poll_interval_s = poll_interval_s
        self._loud = logging.WARNING if announces else logging.DEBUG
        self._poller = ExperimentPoller(access.store, announces=announces)
        self._thread = ThreadPoolExecutor(1, "experiments")  # the poller is not thread-safe
        self._polling: asyncio.Task[None] | None = None
        self._crashed = crashed

    async def start(self) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(FIRST_ANSWER_S):
                await self.refresh()
        self._polling = asyncio.create_task(
            keep_running("experiment poller", self._poll, self._crashed)
        )

    async def close(self) -> None:
        if self._polling is not None:
            self._polling.cancel()
            await asyncio.gather(self._polling, return_exceptions=True)
        self._thread.shutdown(wait=False, cancel_futures=True)

    async def prepare(self, experiments: Sequence[Experiment]) -> None:
        """Read the epochs of a configuration before it takes effect.

        The old state of a configuration that returns is not reused: it may have been paused since.
        """
        current = {fingerprint(one) for one in self._experiments()}
        marks = {fingerprint(one) for one in experiments}
        self._state.push(dict.fromkeys(marks - current, ExperimentStatus()))
        with contextlib.suppress(StoreUnavailable, TimeoutError):
            statuses = partial(self._poller.prepare, experiments)
            async with asyncio.timeout(FIRST_ANSWER_S):
                self._state.push(await self._in_poller_thread(statuses))

    async def refresh(self) -> None:
        """Poll the state now; an unreachable store changes nothing and is logged once."""
        try:
            statuses = await self._in_poller_thread(partial(self._poller.poll, self._experiments()))
        except StoreUnavailable as exc:
            if not self._access.unavailable:
                message = "store unreachable; continuing with last known experiment state: %s"
                _log.log(self._loud, message, exc)
            self._access.unavailable = str(exc)
            return
        if self._access.unavailable:
            _log.log(self._loud, "store reachable again; experiment state is up to date")
        self._access.unavailable = ""
        self._state.push(statuses)

    def status(self, experiment: Experiment) -> ExperimentStatus:
        return self._state.status(fingerprint(experiment))

    def named(self, name: str) -> Experiment | None:
        return next((one for one in self._experiments() if one.name == name), None)

    @property
    def experiments(self) -> Sequence[Experiment]:
        return self._experiments()

    async def report(self, experiment: Experiment, *, removed: bool = False) -> Report:
        """Build a report. removed: as in `report_of`. Raises StoreUnavailable."""
        return await self._access.call(lambda store: report_of(experiment, store, removed=removed))

    async def removed(self) -> tuple[RemovedExperiment, ...]:
        """Return experiments removed from the configuration. Raises StoreUnavailable."""
        names = {one.name for one in self._experiments()}
        return await self._access.call(lambda store: removed_experiments(store, names))

    async def pause(self, experiment: Experiment, reason: str, at: float) -> None:
        """Pause an experiment. Raises StoreUnavailable."""
        await self._access.call(lambda store: store.pause(experiment.name, reason, at))
        await self.refresh()

    async def resume(self, experiment: Experiment) -> bool:
        """Resume an experiment; return whether it was paused. Raises StoreUnavailable."""
        was = await self._access.call(lambda store: store.resume(experiment.name))
        await self.refresh()
        return was

    async def exclude(self, name: str, one: ExcludedName) -> ExclusionReport | None:
        """Exclude a unit or key; `None` if it has sent nothing. Raises StoreUnavailable."""
        return await self._access.call(lambda store: add_exclusion(store, name, one))

    async def include(self, name: str, kind: Kind, subject: str) -> bool:
        """End an exclusion; return whether there was one. Raises StoreUnavailable."""
        return await self._access.call(lambda store: end_exclusion(store, name, kind, subject))

    async def exclusions(self, name: str) -> tuple[ExclusionReport, ...]:
        """Return the exclusions of an experiment. Raises StoreUnavailable."""
        return await self._access.call(lambda store: exclusion_reports(store, name))

    async def _poll(self) -> None:
        while True:
            await asyncio.sleep(self._poll_interval_s)
            await self.refresh()

    async def _in_poller_thread(self, work: Callable[[], _T]) -> _T:
        return await asyncio.get_running_loop().run_in_executor(self._thread, work)
