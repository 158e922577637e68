"""Connect the budgets of a gateway with its store."""

from collections.abc import Callable

from prometheus_client.registry import CollectorRegistry

from gateway.budgets.bank import BudgetBank
from gateway.budgets.metrics import AccountCollector
from gateway.budgets.sync import BudgetSync
from gateway.config.schema.budgets import Budget
from gateway.recording.setup import Records


def stored_budgets(
    budgets: Callable[[], tuple[Budget, ...]], records: Records, registry: CollectorRegistry
) -> tuple[BudgetBank, BudgetSync]:
    """Return the accounts, and their connection with the store, to be started.

    budgets: the current configuration's. registry: of the leader's metrics.
    """
    bank = BudgetBank(budgets, durable=True)
    sync = BudgetSync(bank, records.store.spend, lambda: records.importer.status.whole_at)
    registry.register(AccountCollector(bank, sync))
    return bank, sync
