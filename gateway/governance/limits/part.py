"""Limits of requests as a part: accounts, leases among processes, and what counts in Redis."""

from typing import Any

from strowger_gateway.gateway.config.problems import Problems
from strowger_gateway.gateway.config.schema.config import Config
from strowger_gateway.gateway.parts.leader_side import LeaderContext, LeaderSide
from strowger_gateway.gateway.parts.part import Part
from strowger_gateway.gateway.parts.process_side import ProcessContext, ProcessSide


class LimitsPart(Part):
    """`limits` and those of keys, teams and plans are fields of `Config`."""

    name = "limits"

    def check(self, config: Config, problems: Problems) -> None:
        from strowger_gateway.gateway.config.checks.limits import check_limits

        check_limits(config, problems)

    def leader(self, at: LeaderContext) -> LeaderSide[Any, Any]:
        from strowger_gateway.gateway.governance.limits.leader_side import LimitsLeader

        return LimitsLeader(at)

    def process(self, at: ProcessContext) -> ProcessSide[Any, Any]:
        from strowger_gateway.gateway.governance.limits.process_side import LimitsSide

        return LimitsSide(at)
