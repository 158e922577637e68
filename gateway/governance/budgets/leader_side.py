"""The budgets once per gateway: what the store knows, what workers lease, and alerts."""

import asyncio
from collections.abc import Callable

from strowger_gateway.gateway.governance.budgets.alerts import BudgetAlerts
from strowger_gateway.gateway.governance.budgets.lease_leader import BudgetLeaseLeader
from strowger_gateway.gateway.governance.budgets.ledger import Shortfall
from strowger_gateway.gateway.governance.budgets.messages import BudgetsToLeader
from strowger_gateway.gateway.governance.budgets.metrics import AccountCollector, AlertCollector
from strowger_gateway.gateway.governance.budgets.sync import BudgetSync
from strowger_gateway.gateway.governance.issued_keys.leader_side import KeysLeader
from strowger_gateway.gateway.governance.leases.messages import ToWorker
from strowger_gateway.gateway.parts.leader_side import LeaderContext, LeaderSide

ToWorkers = ToWorker[tuple[Shortfall, ...]]


class BudgetsLeader(LeaderSide[BudgetsToLeader, ToWorkers]):
    """Follows the store from `start` until `close`."""

    receives = BudgetsToLeader

    def __init__(self, at: LeaderContext) -> None:
        rules = at.side(KeysLeader).rules
        self._lent = BudgetLeaseLeader(rules.budgets, durable=True)
        self._sync = BudgetSync(self._lent, at.store.spend, at.imported_at)
        self._alerts = BudgetAlerts(rules.budgets, at.config, at.store)
        self._crashed = at.crashed
        at.registry.register(AccountCollector(self._lent, self._sync))
        at.registry.register(AlertCollector(self._alerts))

    async def start(self) -> None:
        await self._sync.start(self._crashed)
        self._alerts.start(self._crashed)

    def joined(self, worker: int, send: Callable[[ToWorkers], None]) -> None:
        self._lent.join(worker, send)

    def left(self, worker: int) -> None:
        self._lent.leave(worker)

    def on_message(self, worker: int, message: BudgetsToLeader) -> None:
        self._lent.on_message(worker, message)

    async def close(self) -> None:
        await asyncio.gather(self._alerts.close(), self._sync.close())
