"""Experiments as a part: their state in each process, and what runs for them once."""

from typing import Any

from strowger_gateway.gateway.config.problems import Problems
from strowger_gateway.gateway.config.schema.config import Config
from strowger_gateway.gateway.parts.leader_side import LeaderContext, LeaderSide
from strowger_gateway.gateway.parts.part import Part
from strowger_gateway.gateway.parts.process_side import ProcessContext, ProcessSide


class ExperimentsPart(Part):
    """`experiments` is a field of `Config`."""

    name = "experiments"

    def check(self, config: Config, problems: Problems) -> None:
        from strowger_gateway.gateway.config.checks.experiment_power import check_experiment_power
        from strowger_gateway.gateway.config.checks.experiment_ranges import check_ranges
        from strowger_gateway.gateway.config.checks.experiments import check_experiments
        from strowger_gateway.gateway.config.checks.metrics import check_metrics

        check_experiments(config, problems)
        check_metrics(config, problems)
        check_experiment_power(config, problems)
        check_ranges(config, problems)

    def leader(self, at: LeaderContext) -> LeaderSide[Any, Any]:
        from strowger_gateway.gateway.experiments.leader_side import ExperimentsLeader

        return ExperimentsLeader(at)

    def process(self, at: ProcessContext) -> ProcessSide[Any, Any]:
        from strowger_gateway.gateway.experiments.process_side import ExperimentsSide

        return ExperimentsSide(at)
