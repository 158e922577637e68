"""What is done about experiments once for the whole gateway, by the process that leads it."""

import asyncio
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from time import monotonic

from gateway.background import OnCrash, ignore_crash, keep_running
from gateway.config.schema_experiment import Experiment
from gateway.experiments.service.guardrails import CHECK_INTERVAL_S, GuardrailMonitor
from gateway.experiments.service.history import HistoryRecorder
from gateway.experiments.service.polling_interval import PollingInterval
from gateway.store.base import Store
from gateway.store.errors import StoreUnavailable


class ExperimentJobs:
    """Guardrails are looked at and the history is kept from `start` to `close`."""

    def __init__(
        self,
        store: Store,
        experiments: Callable[[], Sequence[Experiment]],
        *,
        shown: Callable[[], bool],
        judge_s: float = CHECK_INTERVAL_S,
        pace: PollingInterval | None = None,
        crashed: OnCrash = ignore_crash,
    ) -> None:
        """experiments: of the configuration in force. shown: whether anybody may see a history.

        judge_s: between two looks at the guardrails, at least. pace: of these; of its own if None.
        """
        self.monitor = GuardrailMonitor(store, every_s=judge_s)
        self._threads = ThreadPoolExecutor(2, "minding")
        self.history = HistoryRecorder(store, experiments, shown=shown, threads=self._threads)
        self._experiments = experiments
        self._judge_s = judge_s
        self._pace = pace or PollingInterval(judge_s)
        self._crashed = crashed
        self._tasks: tuple[asyncio.Task[None], ...] = ()

    def start(self) -> None:
        self._tasks = (
            asyncio.create_task(keep_running("guardrails", self._check_guardrails, self._crashed)),
            asyncio.create_task(
                keep_running("history of experiments", self.history.run, self._crashed)
            ),
        )

    async def close(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._tasks = ()
        self._threads.shutdown(wait=False, cancel_futures=True)

    async def _check_guardrails(self) -> None:
        """A store that is away is told by whoever asks it how experiments stand."""
        rest_s = self._judge_s
        while True:
            await asyncio.sleep(rest_s)
            look, began, away = partial(self.monitor.check, self._experiments()), monotonic(), False
            try:
                await asyncio.get_running_loop().run_in_executor(self._threads, look)
            except StoreUnavailable:
                away = True
            rest_s = self._pace.wait_s(monotonic() - began, away=away)
