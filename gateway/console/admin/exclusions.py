"""`/admin/experiments/NAME/exclude` and `/include`: leave out what a unit or key sent."""

import logging
import time
from collections.abc import Callable

import msgspec
from litestar import Request, post
from litestar.datastructures import State
from litestar.handlers import HTTPRouteHandler
from litestar.params import FromPath
from msgspec import Struct

from strowger_gateway.gateway.assembly.gateway import Gateway
from strowger_gateway.gateway.audit.event import Action, AuditEvent
from strowger_gateway.gateway.console.admin.access import SCHEME, made_by
from strowger_gateway.gateway.console.admin.experiments import (
    LONGEST_REASON,
    trials_of,
    unknown_experiment,
)
from strowger_gateway.gateway.experiments.experiment_service import ExperimentService
from strowger_gateway.gateway.experiments.trust.exclusions import ExclusionReport
from strowger_gateway.gateway.observability.recording.process_side import AuditSide
from strowger_gateway.gateway.routing.planning.enrolment import unit_hash
from strowger_gateway.gateway.storage.sql.experiments.exclusions import ExcludedName, Kind
from strowger_gateway.gateway.surfaces.decoding import UNREADABLE
from strowger_gateway.gateway.surfaces.openapi.hot_routes import operation
from strowger_gateway.schemas.errors import InvalidRequest, RouteNotFound

_Request = Request[object, object, State]
_log = logging.getLogger("strowger.experiments")


class ExclusionBody(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One of unit, user and key.

    unit:   its hash, as in reports and exports. user: the user, session or header value as clients
            send it.
    key:    the name of an API key; "" for requests without one.
    reason: shown in reports.
    """

    unit: str | None = None
    user: str | None = None
    key: str | None = None
    reason: str = ""


class Exclusions(Struct, frozen=True, kw_only=True):
    """All exclusions of an experiment, oldest first."""

    exclusions: tuple[ExclusionReport, ...]


_body = msgspec.json.Decoder(ExclusionBody)


def exclusion_routes(current: Callable[[], Gateway]) -> list[HTTPRouteHandler]:
    @post(
        "/experiments/{name:str}/exclude",
        status_code=200,
        request_max_body_size=65_536,
        role="operator",
        security=[{SCHEME: []}],
        operation_class=operation(
            "Exclude a unit or an API key: every report leaves out what it has sent", ExclusionBody
        ),
    )
    async def exclude(name: FromPath[str], request: _Request) -> Exclusions:
        trials = trials_of(current())
        await _check_known(trials, name)
        body = _read(await request.body())
        kind, subject = _subject(name, body)
        by = made_by(current(), request.scope)
        one = ExcludedName(kind=kind, name=subject, reason=body.reason, by=by.label, at=time.time())
        if await trials.exclude(name, one) is None:
            raise RouteNotFound(
                f"{kind} {subject!r} has sent no request of experiment {name!r}",
                param=kind,
                code="not_in_experiment",
            )
        _record(request, current(), "experiment.exclude", name, one)
        return Exclusions(exclusions=await trials.exclusions(name))

    @post(
        "/experiments/{name:str}/include",
        status_code=200,
        request_max_body_size=65_536,
        role="operator",
        security=[{SCHEME: []}],
        operation_class=operation("End an exclusion: the unit or key counts again", ExclusionBody),
    )
    async def include(name: FromPath[str], request: _Request) -> Exclusions:
        trials = trials_of(current())
        await _check_known(trials, name)
        body = _read(await request.body())
        kind, subject = _subject(name, body)
        if not await trials.include(name, kind, subject):
            raise RouteNotFound(
                f"{kind} {subject!r} is not excluded from experiment {name!r}",
                param=kind,
                code="exclusion_not_found",
            )
        one = ExcludedName(kind=kind, name=subject, reason=body.reason, by="", at=0.0)
        _record(request, current(), "experiment.include", name, one)
        return Exclusions(exclusions=await trials.exclusions(name))

    return [exclude, include]


async def _check_known(trials: ExperimentService, name: str) -> None:
    """Raise RouteNotFound unless an experiment of the configuration or the store has this name."""
    if trials.named(name) is not None:
        return
    names = [one.name for one in trials.experiments]
    names += [one.name for one in await trials.removed()]
    if name not in names:
        raise unknown_experiment(name, names)


def _read(data: bytes) -> ExclusionBody:
    try:
        body = _body.decode(data)
    except UNREADABLE as exc:
        raise InvalidRequest(
            f'expected the body {{"unit": …}}, {{"user": …}} or {{"key": …}}: {exc}'
        ) from exc
    if len(body.reason) > LONGEST_REASON:
        raise InvalidRequest(f"reason: at most {LONGEST_REASON} characters", param="reason")
    return body


def _subject(name: str, body: ExclusionBody) -> tuple[Kind, str]:
    given = [one for one in (body.unit, body.user, body.key) if one is not None]
    if len(given) != 1:
        raise InvalidRequest("give one of unit, user and key", param="unit")
    if not f"{body.unit or ''}{body.key or ''}".isprintable():
        raise InvalidRequest("unit, key: no name has control characters", param="unit")
    if body.key is not None:
        return "key", body.key
    return "unit", unit_hash(name, given[0]) if body.unit is None else body.unit


def _record(
    request: _Request, gateway: Gateway, action: Action, name: str, one: ExcludedName
) -> None:
    """Log a change, and record it in the audit log."""
    by = made_by(gateway, request.scope)
    done = "excluded from" if action == "experiment.exclude" else "included again in"
    _log.warning("%s %s %s experiment %s by %s", one.kind, one.name, done, name, by.label)
    event = AuditEvent.by(by, action, target=name, reason=one.reason, facts={one.kind: one.name})
    gateway.side(AuditSide).log.record(event)
