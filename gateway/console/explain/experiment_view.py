"""The part that a model's experiment plays for one request."""

from strowger_gateway.gateway.assembly.runtime import Runtime
from strowger_gateway.gateway.console.explain.explanation import (
    ExplainedExperiment,
    ExplainedVariant,
)
from strowger_gateway.gateway.routing.planning.enrolment import ExperimentStatus
from strowger_gateway.gateway.routing.planning.planner import Planner
from strowger_gateway.gateway.routing.planning.request_facts import RequestFacts, unit_of
from strowger_gateway.gateway.routing.planning.route import Route
from strowger_gateway.schemas.requests import Request


def assume_running(runtime: Runtime) -> None:
    """Treat every experiment as running: used with a Runtime without a store."""
    experiments = runtime.planner.experiments.values()
    runtime.routing.experiments.push(
        {one.fingerprint: ExperimentStatus(epoch=1) for one in experiments}
    )


def explained_experiment(
    planner: Planner, route: Route, request: Request, facts: RequestFacts
) -> ExplainedExperiment | None:
    """Describe the request's part in its model's experiment; `None` without an experiment."""
    trial = planner.experiments.get(route.name)
    if trial is None:
        return None
    weights = sum(arm.weight for arm in trial.arms.values())
    drawn = trial.by == "request"
    enrolment = planner.enrol(route, request, facts)
    assert enrolment is not None
    excluded = enrolment.participation.exclusion
    alone = drawn and excluded is None
    return ExplainedExperiment(
        name=trial.experiment,
        by=trial.by,
        unit="" if drawn else unit_of(request, facts, trial.by),
        variant="" if enrolment.arm is None or alone else enrolment.arm.name,
        excluded="" if excluded is None else excluded.reason,
        arms=tuple(
            ExplainedVariant(
                name=name,
                backend=arm.backend.name,
                share=round(arm.weight / weights, 4),
                prompt=arm.prompt,
            )
            for name, arm in trial.arms.items()
        ),
    )
