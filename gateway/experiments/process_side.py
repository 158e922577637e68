"""The experiments of a serving process: their state, and their history from the leader."""

from typing import TYPE_CHECKING, cast

from strowger_gateway.gateway.config.schema.config import Config
from strowger_gateway.gateway.experiments.experiment_service import ExperimentService
from strowger_gateway.gateway.experiments.history import ExperimentHistory
from strowger_gateway.gateway.experiments.messages import HistoryAsked
from strowger_gateway.gateway.parts.process_side import ProcessContext, ProcessSide
from strowger_gateway.gateway.routing.planning.enrolment import ExperimentState

if TYPE_CHECKING:
    from strowger_gateway.gateway.experiments.background_jobs import ExperimentJobs
    from strowger_gateway.gateway.experiments.leader_side import ExperimentsLeader


class ExperimentsSide(ProcessSide[None, None]):
    """service: `None` without a store. jobs: if they run in this process."""

    def __init__(self, at: ProcessContext) -> None:
        self.service = _service(at)
        self.jobs: ExperimentJobs | None = None
        if at.leader is not None:
            self.jobs = cast("ExperimentsLeader", at.leader).jobs
        self._alone = at.alone
        self._ask = at.ask

    async def start(self) -> None:
        if self.service is not None:
            await self.service.start()

    async def ready(self, config: Config) -> None:
        if self.service is not None:
            await self.service.prepare(config.experiments)

    async def close(self, within_s: float) -> None:
        if self.service is not None:
            await self.service.close()

    async def history(self) -> ExperimentHistory:
        """Return the history of experiments. Raises Unavailable if the leader does not answer."""
        if self.jobs is not None:
            return self.jobs.history.latest
        if self._alone:
            return ExperimentHistory()
        return await self._ask(HistoryAsked(), ExperimentHistory)


def _service(at: ProcessContext) -> ExperimentService | None:
    if at.access is None or at.recorder is None:
        return None
    return ExperimentService(
        at.access,
        at.recorder,
        at.own(ExperimentState),
        lambda: at.config().experiments,
        announces=at.worker == 0,
        crashed=at.crashed,
    )
