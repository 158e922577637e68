"""The budgets of a serving process, which leases from the leader's."""

from collections.abc import Callable, Sequence
from functools import partial

from strowger_gateway.gateway.config.schema.config import Config
from strowger_gateway.gateway.governance.budgets.budgets import Budgets
from strowger_gateway.gateway.governance.budgets.lease_leader import BudgetLeaseLeader
from strowger_gateway.gateway.governance.budgets.lease_worker import BudgetLeaseWorker
from strowger_gateway.gateway.governance.budgets.ledger import Shortfall
from strowger_gateway.gateway.governance.budgets.messages import BudgetsToLeader
from strowger_gateway.gateway.governance.budgets.metrics import BudgetCollector
from strowger_gateway.gateway.governance.issued_keys.process_side import KeysSide
from strowger_gateway.gateway.governance.leases.messages import ToWorker
from strowger_gateway.gateway.observability.recording.ended_requests import EndedRequests
from strowger_gateway.gateway.parts.leader_side import Work
from strowger_gateway.gateway.parts.process_side import ProcessContext, ProcessSide


class BudgetsSide(ProcessSide[BudgetsToLeader, ToWorker[tuple[Shortfall, ...]]]):
    """budgets: those of requests, over all generations of the configuration."""

    receives = ToWorker[tuple[Shortfall, ...]]

    def __init__(self, at: ProcessContext) -> None:
        keys = at.side(KeysSide)
        keys.follow_rules(self._apply)
        self._rules = keys.rules
        self._flush = at.flush
        self.budgets = at.own(Budgets)
        self.budgets.configure(self._rules.budgets())
        self._connected = at.leader is not None or not at.alone
        self._leases = self._leased(at) if self._connected else self._in_memory()
        at.registry.register(BudgetCollector(self.budgets))

    def use(self, config: Config) -> None:
        self._apply()

    def on_message(self, message: ToWorker[tuple[Shortfall, ...]]) -> None:
        self._leases.on_message(message)

    def works(self) -> Sequence[Work]:
        return (("budget reports", self._leases.report),) if self._connected else ()

    def taker(self) -> Callable[[EndedRequests], None] | None:
        """See TakesEnded: settle what requests have reserved by what they have cost."""
        budgets = self.budgets
        return budgets.finished if budgets.any or budgets.holds else None

    async def close(self, within_s: float) -> None:
        self._leases.report_now()

    def _leased(self, at: ProcessContext) -> BudgetLeaseWorker:
        return BudgetLeaseWorker(self.budgets, at.send, at.flush)

    def _in_memory(self) -> BudgetLeaseWorker:
        """Lease from accounts that end with this process."""
        leader = BudgetLeaseLeader(self._rules.budgets)
        leases = BudgetLeaseWorker(self.budgets, partial(leader.on_message, 0), self._flush)
        leader.join(0, leases.on_message)
        return leases

    def _apply(self) -> None:
        """Hold requests to the budgets of the configuration and of issued keys."""
        budgets = self._rules.budgets()
        if self.budgets.configured is not budgets:
            self._flush()
            self.budgets.configure(budgets)
