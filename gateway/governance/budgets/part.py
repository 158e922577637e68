"""Budgets as a part: accounts that the store and the processes share, leases, and alerts."""

from typing import Any

from strowger_gateway.gateway.config.problems import Problems
from strowger_gateway.gateway.config.schema.config import Config
from strowger_gateway.gateway.parts.leader_side import LeaderContext, LeaderSide
from strowger_gateway.gateway.parts.part import Part
from strowger_gateway.gateway.parts.process_side import ProcessContext, ProcessSide


class BudgetsPart(Part):
    """`budgets` and those of keys, teams and plans are fields of `Config`."""

    name = "budgets"

    def check(self, config: Config, problems: Problems) -> None:
        from strowger_gateway.gateway.config.checks.budgets import check_budgets

        check_budgets(config, problems)

    def leader(self, at: LeaderContext) -> LeaderSide[Any, Any]:
        from strowger_gateway.gateway.governance.budgets.leader_side import BudgetsLeader

        return BudgetsLeader(at)

    def process(self, at: ProcessContext) -> ProcessSide[Any, Any]:
        from strowger_gateway.gateway.governance.budgets.process_side import BudgetsSide

        return BudgetsSide(at)
