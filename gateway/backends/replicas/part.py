"""The replicas of backends as a part: where they are, and how busy they say they are."""

from collections.abc import Callable
from typing import Any

from strowger_gateway.gateway.backends.discovery.discovered import NOTHING_DISCOVERED, Discovered
from strowger_gateway.gateway.config.problems import Problems
from strowger_gateway.gateway.config.schema.config import Config
from strowger_gateway.gateway.parts.leader_side import LeaderContext, LeaderSide
from strowger_gateway.gateway.parts.part import Part
from strowger_gateway.gateway.parts.process_side import ProcessContext, ProcessSide


class ReplicasPart(Part):
    """`discover` and `gauges` are fields of a model's backends."""

    name = "replicas"

    def check(self, config: Config, problems: Problems) -> None:
        from strowger_gateway.gateway.backends.replicas.check import check_discovery

        check_discovery(config, problems)

    def leader(self, at: LeaderContext) -> LeaderSide[Any, Any]:
        from strowger_gateway.gateway.backends.replicas.leader_side import ReplicasLeader

        return ReplicasLeader(at)

    def process(self, at: ProcessContext) -> ProcessSide[Any, Any]:
        from strowger_gateway.gateway.backends.replicas.process_side import ReplicasSide

        return ReplicasSide(at)


def replicas_at_start(
    first: Callable[[str, type[Discovered]], Discovered | None],
) -> Discovered:
    """Return what is known before the first generation is built. first: see Link."""
    return first(ReplicasPart.name, Discovered) or NOTHING_DISCOVERED
