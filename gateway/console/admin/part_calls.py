"""What parts show to operators, and the calls that their routes and views get."""

from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

import msgspec
from litestar import Request
from litestar.datastructures import State
from msgspec import Struct

from strowger_gateway.gateway.assembly.gateway import Gateway
from strowger_gateway.gateway.audit.event import AuditEvent
from strowger_gateway.gateway.console.admin.access import made_by, principal_of
from strowger_gateway.gateway.observability.recording.process_side import AuditSide
from strowger_gateway.gateway.parts.console import AdminCall, AdminRoute, PageView
from strowger_gateway.gateway.surfaces.decoding import UNREADABLE
from strowger_gateway.schemas.errors import InvalidRequest, RouteNotFound

_Request = Request[object, object, State]
TakesT = TypeVar("TakesT", bound=Struct)
_Side = TypeVar("_Side")


def routes_of(gateway: Gateway) -> Sequence[AdminRoute[Any]]:
    """Return the routes of all parts."""
    return [route for part in gateway.parts.listed for route in part.routes()]


def views_of(gateway: Gateway) -> Sequence[PageView[Any]]:
    """Return the views of all parts."""
    return [view for part in gateway.parts.listed for view in part.views()]


def names_of(takes: type[Struct]) -> tuple[str, ...]:
    """Return the names of the parameters that a Struct describes."""
    return takes.__struct_encode_fields__


def call_with_query(gateway: Gateway, request: _Request, takes: type[TakesT]) -> AdminCall[TakesT]:
    """Return the call with the parameters of the URL. Raises InvalidRequest."""
    return call_with(gateway, request, takes, dict(request.query_params.items()))


def call_with(
    gateway: Gateway, request: _Request, takes: type[TakesT], sent: Mapping[str, str]
) -> AdminCall[TakesT]:
    """Return the call with texts by name. Raises InvalidRequest."""
    try:
        given = msgspec.convert(sent, takes, strict=False)
    except msgspec.ValidationError as exc:
        fault, _, path = str(exc).partition(" - at `$.")
        name = path.rstrip("`") or None
        raise InvalidRequest(f"{name}: {fault}" if name else fault, param=name) from exc
    return _call(gateway, request, given)


async def call_with_body(
    gateway: Gateway, request: _Request, takes: type[TakesT]
) -> AdminCall[TakesT]:
    """Return the call with the JSON of the body; without a body, all fields have their defaults.

    Raises InvalidRequest.
    """
    data = await request.body()
    try:
        given = msgspec.json.decode(data or b"{}", type=takes)
    except UNREADABLE as exc:
        raise InvalidRequest(f"cannot read the body: {exc}") from exc
    return _call(gateway, request, given)


async def change(
    gateway: Gateway, request: _Request, route: AdminRoute[TakesT], call: AdminCall[TakesT]
) -> object:
    """Let the part change something, and record it. Raises the GatewayErrors of the part.

    What is refused is recorded with all other answers of /admin.
    """
    found = await route.answer(call)
    by, facts = made_by(gateway, request.scope), dict(call.facts)
    target = facts.pop("target", request.scope["path"])
    reason = facts.pop("reason", "")
    gateway.side(AuditSide).log.record(
        AuditEvent.by(by, route.action, target=target, reason=reason, facts=facts)
    )
    return found


def _call(gateway: Gateway, request: _Request, given: TakesT) -> AdminCall[TakesT]:
    def side(kind: type[_Side], /) -> _Side:
        try:
            return gateway.side(kind)
        except LookupError as exc:
            told = f"the configuration does not use what {request.scope['path']} is about"
            raise RouteNotFound(told) from exc

    who = principal_of(request.scope)
    return AdminCall(
        given=given,
        who=who.name,
        role=who.role,
        by=made_by(gateway, request.scope),
        side=side,
        config=gateway.runtime.config,
    )
