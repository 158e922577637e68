"""Background jobs for experiments, run once per gateway by its leader process."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from time import monotonic

from strowger_gateway.gateway.audit.log import AuditLog
from strowger_gateway.gateway.config.schema.experiment import Experiment
from strowger_gateway.gateway.experiments.harm_limits import (
    CHECK_INTERVAL_S,
    HarmLimitMonitor,
)
from strowger_gateway.gateway.experiments.history import HistoryRecorder
from strowger_gateway.gateway.experiments.polling_interval import PollingInterval
from strowger_gateway.gateway.platform.background import OnCrash, ignore_crash, keep_running
from strowger_gateway.gateway.storage.sql.base import Store
from strowger_gateway.gateway.storage.sql.errors import StoreUnavailable


class ExperimentJobs:
    """Check harm limits and record the history from `start` to `close`."""

    def __init__(
        self,
        store: Store,
        experiments: Callable[[], Sequence[Experiment]],
        *,
        shown: Callable[[], bool],
        check_interval_s: float = CHECK_INTERVAL_S,
        polling: PollingInterval | None = None,
        audit: AuditLog | None = None,
        crashed: OnCrash = ignore_crash,
        freed: Callable[[], Awaitable[None]] | None = None,
    ) -> None:
        """experiments: returns those of the current configuration.

        shown:            returns whether the history can be shown at all.
        check_interval_s: minimum interval between harm limit checks.
        audit:            records pauses because of a harm limit.
        polling:          the PollingInterval of the checks; `None` creates one.
        freed:            waited for before anything; returns when no other process does the same.
        """
        self.monitor = HarmLimitMonitor(store, every_s=check_interval_s, audit=audit)
        self._threads = ThreadPoolExecutor(2, "experiment-jobs")
        self.history = HistoryRecorder(store, experiments, shown=shown, threads=self._threads)
        self._experiments = experiments
        self._check_interval_s = check_interval_s
        self._polling = polling or PollingInterval(check_interval_s)
        self._crashed = crashed
        self._freed = freed
        self._tasks: tuple[asyncio.Task[None], ...] = ()

    def start(self) -> None:
        self._tasks = (
            asyncio.create_task(
                keep_running("harm limits", self._check_harm_limits, self._crashed)
            ),
            asyncio.create_task(
                keep_running("experiment history", self._record_history, self._crashed)
            ),
        )

    async def close(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._tasks = ()
        self._threads.shutdown(wait=False, cancel_futures=True)

    async def _record_history(self) -> None:
        if self._freed is not None:
            await self._freed()
        await self.history.run()

    async def _check_harm_limits(self) -> None:
        """Check until cancelled. An unreachable store is only logged by the experiment poller."""
        if self._freed is not None:
            await self._freed()
        wait_s = self._check_interval_s
        while True:
            await asyncio.sleep(wait_s)
            check = partial(self.monitor.check, self._experiments())
            started, unavailable = monotonic(), False
            try:
                await asyncio.get_running_loop().run_in_executor(self._threads, check)
            except StoreUnavailable:
                unavailable = True
            wait_s = self._polling.wait_s(monotonic() - started, unavailable=unavailable)
