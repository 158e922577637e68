"""What a model's experiment means to one request, in words."""

from gateway.explaining.explanation import ArmSeen, ExperimentSeen
from gateway.routing.facts import Facts, unit_of
from gateway.routing.plan import enrol
from gateway.routing.route import Route
from gateway.routing.trial import LeftOut, Standing
from gateway.runtime import Runtime
from schemas.requests import Request

_WHY: dict[LeftOut, str] = {
    "": "",
    "rule": "a `when` rule decides",
    "no_unit": "the request has no {by}; the control serves it, and it does not count",
    "wrong_task": "only a conversation can be told what a variant's `system` says",
    "paused": "the experiment is paused{reason}; the control serves everyone",
    "unknown": "the store has not told yet how it stands; the control serves everyone",
}


def take_as_running(runtime: Runtime) -> None:
    """Every experiment that nobody has heard of: for a Runtime that asks no store."""
    trials = [route.trial for route in runtime.table.routes.values() if route.trial is not None]
    runtime.experiments.push({trial.fingerprint: Standing(epoch=1) for trial in trials})


def taking_part(route: Route, request: Request, facts: Facts) -> ExperimentSeen | None:
    """`None` where the model has no experiment."""
    trial = route.trial
    if trial is None:
        return None
    weights = sum(arm.weight for arm in trial.arms.values())
    drawn = trial.by == "request"
    enrolment = enrol(route, request, facts)
    assert enrolment is not None
    reason = trial.standing.reason
    left_out = _WHY[enrolment.left_out].format(
        by=trial.by.replace("_", " ").replace("header:", "header "),
        reason=f" ({reason})" if reason else "",
    )
    alone = drawn and not enrolment.left_out
    return ExperimentSeen(
        name=trial.experiment,
        by=trial.by,
        unit="" if drawn else unit_of(request, facts, trial.by),
        variant="" if enrolment.arm is None or alone else enrolment.arm.name,
        left_out=left_out,
        arms=tuple(
            ArmSeen(name=name, backend=arm.backend.name, share=round(arm.weight / weights, 4))
            for name, arm in trial.arms.items()
        ),
    )
