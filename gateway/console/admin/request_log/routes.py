"""`/admin/requests` and below: what was requested, of whom, how it ended, and what it cost."""

import time
from collections.abc import Callable
from typing import Annotated, Final

from litestar import Request, Response, get
from litestar.datastructures import State
from litestar.handlers import HTTPRouteHandler
from litestar.params import FromPath
from msgspec import Meta
from msgspec.structs import replace

from strowger_gateway.gateway.assembly.gateway import Gateway
from strowger_gateway.gateway.assembly.request_log import MAX_RECENT
from strowger_gateway.gateway.console.admin.access import SCHEME, principal_of
from strowger_gateway.gateway.console.admin.parameters import TAKEN
from strowger_gateway.gateway.console.admin.part_calls import call_with_query, names_of
from strowger_gateway.gateway.console.admin.request_log.listing import (
    RequestList,
    find,
    matching,
)
from strowger_gateway.gateway.console.admin.request_log.parameters import (
    FilterParameters,
    cursor_of,
    filter_of,
)
from strowger_gateway.gateway.console.admin.request_log.stored_payload import may_read, payload_of
from strowger_gateway.gateway.console.admin.request_log.views import RequestView
from strowger_gateway.gateway.storage.sql.request_log.filters import RequestFilter
from strowger_gateway.gateway.storage.sql.request_log.search import ListPlace
from strowger_gateway.gateway.surfaces.openapi.hot_routes import operation_with
from strowger_gateway.schemas.errors import Forbidden, RouteNotFound

_Request = Request[object, object, State]
UNCACHED: Final = {"cache-control": "no-store"}


class ListParameters(FilterParameters, frozen=True, kw_only=True, forbid_unknown_fields=True):
    limit: Annotated[
        int, Meta(ge=1, le=MAX_RECENT, description="number of requests, newest first")
    ] = 50
    after: Annotated[str, Meta(max_length=200, description="`next` of the page before")] = ""
    before: (
        Annotated[float, Meta(gt=0, description="Unix seconds; requests that ended earlier")] | None
    ) = None
    totals: Annotated[
        bool, Meta(description="add up all requests that match, or the newest 10,000 of them")
    ] = False


def request_routes(current: Callable[[], Gateway]) -> list[HTTPRouteHandler]:
    @get(
        "/requests",
        role="viewer",
        security=[{SCHEME: []}],
        operation_class=operation_with(
            "Requests of all gateways that match, the newest first, and what they cost",
            ListParameters,
        ),
        opt={TAKEN: names_of(ListParameters)},
    )
    async def requests(request: _Request) -> Response[RequestList]:
        gateway = current()
        given = call_with_query(gateway, request, ListParameters).given
        wanted = allowed_filter(request, given)
        after = cursor_of(given.after)
        if after is None and given.before is not None:
            after = ListPlace(time=given.before)
        found = await matching(gateway, wanted, given.limit, after, totals=given.totals)
        return Response(found, headers=UNCACHED)

    @get(
        "/requests/{request_id:str}",
        summary="One request, by x-gateway-request-id, the id of its answer or that of its client",
        role="viewer",
        security=[{SCHEME: []}],
    )
    async def one_request(request: _Request, request_id: FromPath[str]) -> RequestView:
        gateway = current()
        found = await find(gateway, request_id)
        if found is None:
            raise unknown_request(request_id)
        if may_read(principal_of(request.scope)):
            entry = await payload_of(gateway, found.request_id)
            if entry is not None:
                return replace(found, payload=f"/admin/payloads/{found.request_id}")
        return found

    return [requests, one_request]


def allowed_filter(request: _Request, given: FilterParameters) -> RequestFilter:
    """Return the filter. Raises InvalidRequest, and Forbidden for what the role may not see."""
    wanted = filter_of(given, time.time())
    if wanted.payload is not None and not may_read(principal_of(request.scope)):
        raise Forbidden(
            "payload: only the role admin sees which requests have a payload",
            code="role_not_allowed",
        )
    return wanted


def unknown_request(request_id: str) -> RouteNotFound:
    return RouteNotFound(
        f"request {request_id!r} not found among the last {MAX_RECENT} of any worker or in the "
        "store; requests are there a second or two after their end, until store.keep_days",
        code="unknown_request",
    )
