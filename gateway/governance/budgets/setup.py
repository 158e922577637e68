"""Connect the budgets of a gateway with its store."""

import asyncio
from collections.abc import Callable

from prometheus_client.registry import CollectorRegistry

from strowger_gateway.gateway.config.schema.budgets import Budget
from strowger_gateway.gateway.config.schema.config import Config
from strowger_gateway.gateway.governance.budgets.alerts import BudgetAlerts
from strowger_gateway.gateway.governance.budgets.lease_leader import BudgetLeaseLeader
from strowger_gateway.gateway.governance.budgets.metrics import AccountCollector, AlertCollector
from strowger_gateway.gateway.governance.budgets.sync import BudgetSync
from strowger_gateway.gateway.observability.recording.setup import Records
from strowger_gateway.gateway.platform.background import OnCrash


class BudgetJobs:
    """What runs for the budgets in the leader, from `start` until `close`."""

    def __init__(self, sync: BudgetSync, alerts: BudgetAlerts) -> None:
        self._sync = sync
        self._alerts = alerts

    async def start(self, crashed: OnCrash) -> None:
        """Read what was spent once, then follow the store."""
        await self._sync.start(crashed)
        self._alerts.start(crashed)

    async def close(self) -> None:
        await asyncio.gather(self._alerts.close(), self._sync.close())


def stored_budgets(
    budgets: Callable[[], tuple[Budget, ...]],
    config: Callable[[], Config],
    records: Records,
    registry: CollectorRegistry,
) -> tuple[BudgetLeaseLeader, BudgetJobs]:
    """Return the accounts, and what connects them with the store, to be started.

    budgets, config: the current ones. registry: of the leader's metrics.
    """
    leader = BudgetLeaseLeader(budgets, durable=True)
    sync = BudgetSync(leader, records.store.spend, lambda: records.importer.status.whole_at)
    alerts = BudgetAlerts(budgets, config, records.store)
    registry.register(AccountCollector(leader, sync))
    registry.register(AlertCollector(alerts))
    return leader, BudgetJobs(sync, alerts)
