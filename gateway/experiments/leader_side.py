"""What runs for experiments once per gateway: harm limits, and the history that is shown."""

from strowger_gateway.gateway.experiments.background_jobs import ExperimentJobs
from strowger_gateway.gateway.experiments.harm_limit_metrics import HarmLimitCollector
from strowger_gateway.gateway.experiments.history import ExperimentHistory
from strowger_gateway.gateway.experiments.messages import HistoryAsked
from strowger_gateway.gateway.parts.leader_side import LeaderContext, LeaderSide


class ExperimentsLeader(LeaderSide[None, None]):
    """A history is only kept if /admin exists, so that it can be shown."""

    questions = HistoryAsked

    def __init__(self, at: LeaderContext) -> None:
        self.jobs = ExperimentJobs(
            at.store,
            lambda: at.config().experiments,
            shown=lambda: at.config().auth.admin,
            audit=at.audit,
            crashed=at.crashed,
            freed=at.freed,
        )
        at.registry.register(HarmLimitCollector(self.jobs.monitor))

    async def start(self) -> None:
        self.jobs.start()

    async def answer(self, question: HistoryAsked) -> ExperimentHistory:
        return self.jobs.history.latest

    async def release(self) -> None:
        await self.jobs.close()

    async def close(self) -> None:
        await self.jobs.close()
