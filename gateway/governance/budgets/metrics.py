"""Metrics of the budgets: what processes have refused, the leader's accounts, and its alerts."""

from collections.abc import Iterable, Iterator
from heapq import nlargest
from operator import attrgetter

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from strowger_gateway.gateway.governance.budgets.accounts import BudgetAccount
from strowger_gateway.gateway.governance.budgets.alerts import BudgetAlerts
from strowger_gateway.gateway.governance.budgets.budgets import Budgets
from strowger_gateway.gateway.governance.budgets.lease_leader import BudgetLeaseLeader
from strowger_gateway.gateway.governance.budgets.sync import BudgetSync
from strowger_gateway.gateway.governance.limits.metrics import MOST_ACCOUNTS, MOST_END_USERS
from strowger_gateway.gateway.storage.sql.spend_rows import NANOS


class BudgetCollector(Collector):
    """Requests that a used-up budget refused or sent to a cheaper model."""

    def __init__(self, budgets: Budgets) -> None:
        self._budgets = budgets

    def collect(self) -> Iterable[Metric]:
        for name, counts, what in (
            ("refused", self._budgets.refused, "refused because a budget has no room"),
            ("moved", self._budgets.moved, "sent to a cheaper model because a budget has no room"),
        ):
            family = CounterMetricFamily(
                f"strowger_budget_{name}_requests", f"Requests {what}.", labels=["budget"]
            )
            for budget, count in counts.items():
                family.add_metric([budget], count)
            yield family


class AccountCollector(Collector):
    """What is spent and reserved of each budget, in the leader. Money is in US dollars."""

    def __init__(self, leader: BudgetLeaseLeader, sync: BudgetSync) -> None:
        self._leader = leader
        self._sync = sync

    def collect(self) -> Iterable[Metric]:
        in_usd, in_tokens = [
            [
                GaugeMetricFamily(
                    f"strowger_budget_{name}_{unit}", f"{what}.", labels=["budget", "subject"]
                )
                for name, what in (
                    ("limit", "What a budget allows in its period"),
                    ("spent", "What was spent in the period, as of the records"),
                    ("reserved", "What is reserved or leased by processes, and not spent yet"),
                )
            ]
            for unit in ("usd", "tokens")
        ]
        for account in _shown(self._leader.accounts):
            usd = account.budget.usd is not None
            labels = [account.budget.name, account.subject]
            values = (account.limit, account.spent, account.reserved + account.others)
            for family, value in zip(in_usd if usd else in_tokens, values, strict=True):
                family.add_metric(labels, value / NANOS if usd else value)
        yield from (*in_usd, *in_tokens)
        yield GaugeMetricFamily(
            "strowger_budgets_current",
            "1 while budgets are read from the store, 0 while the last known spend applies.",
            value=not self._leader.unavailable,
        )
        yield CounterMetricFamily(
            "strowger_budget_lost_usd",
            "Cost of requests whose records a killed process has lost.",
            value=self._sync.lost_nanos / NANOS,
        )
        yield CounterMetricFamily(
            "strowger_budget_expired_leases",
            "Processes and gateways that died with leases of budgets, which have expired.",
            value=self._sync.expired,
        )


def _shown(accounts: Iterable[BudgetAccount]) -> Iterator[BudgetAccount]:
    """Yield all accounts, but of end users only those that have spent most: MOST_END_USERS of each
    budget, and MOST_ACCOUNTS in all, because each of many keys may have such a budget.
    """
    of_end_users: dict[str, list[BudgetAccount]] = {}
    for one in accounts:
        if one.budget.each == "end_user":
            of_end_users.setdefault(one.budget.name, []).append(one)
        else:
            yield one
    most = [
        one
        for found in of_end_users.values()
        for one in nlargest(MOST_END_USERS, found, key=attrgetter("spent"))
    ]
    yield from nlargest(MOST_ACCOUNTS, most, key=lambda one: one.spent / one.limit)


class AlertCollector(Collector):
    """Alerts of budgets and their deliveries, in the leader."""

    def __init__(self, alerts: BudgetAlerts) -> None:
        self._alerts = alerts

    def collect(self) -> Iterable[Metric]:
        made = CounterMetricFamily(
            "strowger_budget_alerts",
            "Shares of budgets that spend has passed, once per subject and period.",
            labels=["budget", "threshold"],
        )
        for (budget, threshold), count in self._alerts.made.items():
            made.add_metric([budget, f"{threshold:g}"], count)
        yield made
        attempts = CounterMetricFamily(
            "strowger_budget_alert_deliveries",
            "Attempts to deliver alerts: delivered, failed, and those that were the last one.",
            labels=["webhook", "outcome"],
        )
        for (webhook, outcome), count in self._alerts.outcomes.items():
            attempts.add_metric([webhook, outcome], count)
        yield attempts
        yield GaugeMetricFamily(
            "strowger_budget_alerts_waiting",
            "Deliveries of alerts that no receiver has accepted yet.",
            value=self._alerts.waiting,
        )
