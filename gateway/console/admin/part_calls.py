"""What parts show to operators, and the calls that their routes and views get."""

from collections.abc import Sequence
from typing import Any, TypeVar

import msgspec
from litestar import Request
from litestar.datastructures import State
from msgspec import Struct

from strowger_gateway.gateway.assembly.gateway import Gateway
from strowger_gateway.gateway.console.admin.access import principal_of
from strowger_gateway.gateway.parts.console import AdminCall, AdminRoute, PageView
from strowger_gateway.gateway.surfaces.decoding import UNREADABLE
from strowger_gateway.schemas.errors import InvalidRequest

_Request = Request[object, object, State]
TakesT = TypeVar("TakesT", bound=Struct)


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
    sent = {name: request.query_params[name] for name in request.query_params}
    try:
        given = msgspec.convert(sent, takes, strict=False)
    except msgspec.ValidationError as exc:
        fault, _, path = str(exc).partition(" - at `$.")
        name = path.rstrip("`") or None
        told = f"{name}: {fault}" if name else fault
        raise InvalidRequest(
            f"{told}; see GET /openapi.json for what is accepted", param=name
        ) from exc
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


def _call(gateway: Gateway, request: _Request, given: TakesT) -> AdminCall[TakesT]:
    return AdminCall(
        given=given,
        who=principal_of(request.scope).name,
        side=gateway.side,
        config=gateway.runtime.config,
    )
