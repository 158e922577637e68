"""The experiments of one process: poll the store in a thread, and update the request path."""

import asyncio
import contextlib
import logging
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TypeVar

from gateway.background import OnCrash, ignore_crash, keep_running
from gateway.config.schema.experiment import Experiment
from gateway.experiments.service.removed import RemovedExperiment, removed_experiments
from gateway.experiments.service.report import Report, report_of
from gateway.experiments.service.state_poller import ExperimentPoller
from gateway.fair_threads import FairThreads
from gateway.routing.planning.enrolment import ExperimentState, ExperimentStatus, fingerprint
from gateway.store.base import Store
from gateway.store.errors import StoreUnavailable
from gateway.store.rows import Recorder
from schemas.holdings import ANONYMOUS, Holder

_log = logging.getLogger("strowger.experiments")
POLL_INTERVAL_S = 1.0
"""Interval between polls of the store; with it a pause reaches every process within 2 s."""

FIRST_ANSWER_S = 2.0
"""Timeout of the store's first answer at start-up; without an answer, control serves everyone."""

_STORE_THREADS = 4
"""Concurrent calls to the store on behalf of a client or operator; further calls queue."""

_T = TypeVar("_T")


class ExperimentService:
    """`start` it before the first request and `close` it after the last.

    While the store is unreachable, experiments continue in their last known state; if it has never
    answered, control serves everyone and no unit is enrolled.
    """

    def __init__(
        self,
        store: Store,
        recorder: Recorder,
        state: ExperimentState,
        experiments: Callable[[], Sequence[Experiment]],
        *,
        announces: bool = True,
        poll_interval_s: float = POLL_INTERVAL_S,
        crashed: OnCrash = ignore_crash,
    ) -> None:
        """experiments: returns those of the current configuration. announces: log state changes."""
        self.store = store
        self.recorder = recorder
        self._state = state
        self._experiments = experiments
        self._poll_interval_s = poll_interval_s
        self._loud = logging.WARNING if announces else logging.DEBUG
        self._poller = ExperimentPoller(store, announces=announces)
        # The poller is not thread-safe, so it has one thread. Calls that a client waits for have
        # their own threads: a hanging store would block the event loop's default pool for others.
        self._thread = ThreadPoolExecutor(1, "experiments")
        self._others = FairThreads(_STORE_THREADS, "store")
        self._polling: asyncio.Task[None] | None = None
        self._unavailable = ""
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
        self._others.close()

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
            if not self._unavailable:
                message = "store unreachable; continuing with last known experiment state: %s"
                _log.log(self._loud, message, exc)
            self._unavailable = str(exc)
            return
        if self._unavailable:
            _log.log(self._loud, "store reachable again; experiment state is up to date")
        self._unavailable = ""
        self._state.push(statuses)

    def status(self, experiment: Experiment) -> ExperimentStatus:
        return self._state.status(fingerprint(experiment))

    def named(self, name: str) -> Experiment | None:
        return next((one for one in self._experiments() if one.name == name), None)

    @property
    def experiments(self) -> Sequence[Experiment]:
        return self._experiments()

    async def ask(self, work: Callable[[], _T], holder: Holder = ANONYMOUS) -> _T:
        """Run `work`, which calls the store, in a thread, when it is the holder's turn.

        Raises StoreUnavailable; without a call if the store is known to be unreachable.
        """
        if self._unavailable:
            raise StoreUnavailable(self._unavailable, retry_after=1)
        return await self._others.run(holder, work, None)

    async def report(self, experiment: Experiment, *, removed: bool = False) -> Report:
        """Build a report. removed: as in `report_of`. Raises StoreUnavailable."""
        return await self.ask(partial(report_of, experiment, self.store, removed=removed))

    async def removed(self) -> tuple[RemovedExperiment, ...]:
        """Return experiments removed from the configuration. Raises StoreUnavailable."""
        names = {one.name for one in self._experiments()}
        return await self.ask(partial(removed_experiments, self.store, names))

    async def pause(self, experiment: Experiment, reason: str, at: float) -> None:
        """Pause an experiment. Raises StoreUnavailable."""
        await self.ask(partial(self.store.pause, experiment.name, reason, at))
        await self.refresh()

    async def resume(self, experiment: Experiment) -> bool:
        """Resume an experiment; return whether it was paused. Raises StoreUnavailable."""
        was = await self.ask(partial(self.store.resume, experiment.name))
        await self.refresh()
        return was

    async def _poll(self) -> None:
        while True:
            await asyncio.sleep(self._poll_interval_s)
            await self.refresh()

    async def _in_poller_thread(self, work: Callable[[], _T]) -> _T:
        return await asyncio.get_running_loop().run_in_executor(self._thread, work)
