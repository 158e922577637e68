"""`/admin/experiments`: results of experiments, and pausing and resuming them."""

import logging
import time
from collections.abc import Callable, Sequence

import msgspec
from litestar import Request, get, post
from litestar.datastructures import State
from litestar.handlers import HTTPRouteHandler
from litestar.params import FromPath
from msgspec import Struct

from strowger_gateway.gateway.assembly.gateway import Gateway
from strowger_gateway.gateway.audit.event import Action, AuditEvent
from strowger_gateway.gateway.config.problems import nearest
from strowger_gateway.gateway.config.schema.experiment import Experiment
from strowger_gateway.gateway.console.admin.access import SCHEME, made_by
from strowger_gateway.gateway.experiments.experiment_service import ExperimentService
from strowger_gateway.gateway.experiments.process_side import ExperimentsSide
from strowger_gateway.gateway.experiments.removed import UNKNOWN, RemovedExperiment
from strowger_gateway.gateway.experiments.report import Report
from strowger_gateway.gateway.experiments.summary import (
    ListedExperiment,
    configured,
    removed,
)
from strowger_gateway.gateway.observability.recording.process_side import AuditSide
from strowger_gateway.gateway.storage.sql.errors import StoreUnavailable
from strowger_gateway.gateway.surfaces.decoding import UNREADABLE
from strowger_gateway.gateway.surfaces.openapi.hot_routes import operation
from strowger_gateway.schemas.errors import InvalidRequest, RouteNotFound, Unavailable

_Request = Request[object, object, State]
_log = logging.getLogger("strowger.experiments")
LONGEST_REASON = 1_000


class ExperimentList(Struct, frozen=True, kw_only=True):
    """away: why removed experiments are missing from the list; "" if they are included."""

    experiments: list[ListedExperiment]
    away: str = ""


class PauseBody(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """reason: shown wherever the pause is shown."""

    reason: str = "by the operator"


_pause = msgspec.json.Decoder(PauseBody)


def experiment_routes(current: Callable[[], Gateway]) -> list[HTTPRouteHandler]:
    return [*_reading(current), *_changing(current)]


def _reading(current: Callable[[], Gateway]) -> list[HTTPRouteHandler]:
    @get(
        "/experiments",
        summary="Every experiment and its state",
        role="viewer",
        security=[{SCHEME: []}],
    )
    async def listed() -> ExperimentList:
        trials = trials_of(current())
        experiments = [_view(trials, one) for one in trials.experiments]
        try:
            experiments += map(removed, await trials.removed())
        except StoreUnavailable as exc:
            return ExperimentList(experiments=experiments, away=exc.message)
        return ExperimentList(experiments=experiments)

    @get(
        "/experiments/{name:str}",
        summary="An experiment's results, with a verdict",
        role="viewer",
        security=[{SCHEME: []}],
    )
    async def report(name: FromPath[str]) -> Report:
        trials = trials_of(current())
        experiment = trials.named(name)
        if experiment is not None:
            return await trials.report(experiment)
        return await trials.report(_definition(trials, name, await trials.removed()), removed=True)

    return [listed, report]


def _changing(current: Callable[[], Gateway]) -> list[HTTPRouteHandler]:
    @post(
        "/experiments/{name:str}/pause",
        status_code=200,
        request_max_body_size=65_536,
        role="operator",
        security=[{SCHEME: []}],
        operation_class=operation(
            "Pause: the control serves all requests until the experiment is resumed", PauseBody
        ),
    )
    async def pause(name: FromPath[str], request: _Request) -> ListedExperiment:
        trials = trials_of(current())
        experiment = _named(trials, name)
        reason = _reason(await request.body())
        await trials.pause(experiment, reason, time.time())
        _record(request, current(), "experiment.pause", name, reason)
        return _view(trials, experiment)

    @post(
        "/experiments/{name:str}/resume",
        status_code=200,
        summary="Resume: the variants serve again, in a new epoch",
        role="operator",
        security=[{SCHEME: []}],
    )
    async def resume(name: FromPath[str], request: _Request) -> ListedExperiment:
        trials = trials_of(current())
        experiment = _named(trials, name)
        was_paused = await trials.resume(experiment)
        reason = "" if was_paused else "it was not paused"
        _record(request, current(), "experiment.resume", name, reason)
        return _view(trials, experiment)

    return [pause, resume]


def _record(
    request: _Request, gateway: Gateway, action: Action, name: str, reason: str = ""
) -> None:
    """Log a change, and record it in the audit log."""
    by = made_by(gateway, request.scope)
    done = "paused" if action == "experiment.pause" else "resumed"
    _log.warning("experiment %s %s by %s", name, done, by.label)
    gateway.side(AuditSide).log.record(AuditEvent.by(by, action, target=name, reason=reason))


def trials_of(gateway: Gateway) -> ExperimentService:
    """Return the service of experiments. Raises Unavailable without a store."""
    service = gateway.side(ExperimentsSide).service
    if service is None:
        raise Unavailable("experiments require a store, and this gateway has none")
    return service


def _named(trials: ExperimentService, name: str) -> Experiment:
    """Find an experiment in the configuration."""
    experiment = trials.named(name)
    if experiment is None:
        raise unknown_experiment(
            name, [one.name for one in trials.experiments], " in the configuration"
        )
    return experiment


def _definition(
    trials: ExperimentService, name: str, gone: Sequence[RemovedExperiment]
) -> Experiment:
    """Find the definition of an experiment that was removed from the configuration."""
    for one in gone:
        if one.name == name:
            if one.experiment is None:
                raise RouteNotFound(f"{name}: {UNKNOWN}", code="experiment_not_found")
            return one.experiment
    raise unknown_experiment(name, [one.name for one in (*trials.experiments, *gone)])


def unknown_experiment(name: str, names: Sequence[str], where: str = "") -> RouteNotFound:
    """Return the error for an unknown experiment. names: of those that exist, where."""
    message = f"experiment {name!r} not found{where}{nearest(name, names)}"
    return RouteNotFound(message, code="experiment_not_found")


def _view(trials: ExperimentService, experiment: Experiment) -> ListedExperiment:
    return configured(experiment, trials.status(experiment))


def _reason(data: bytes) -> str:
    if not data:
        return PauseBody().reason
    try:
        reason = _pause.decode(data).reason
    except UNREADABLE as exc:
        raise InvalidRequest(f'expected the body {{}} or {{"reason": …}}: {exc}') from exc
    if not 0 < len(reason) <= LONGEST_REASON:
        raise InvalidRequest(f"reason: expected 1 to {LONGEST_REASON} characters", param="reason")
    return reason
