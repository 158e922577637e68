"""`/admin/view/requests`, and one request below it."""

from collections.abc import Callable
from typing import Annotated, Final

from litestar import Request, Response, get
from litestar.datastructures import State
from litestar.params import FromPath, QueryParameter
from msgspec import Meta
from msgspec.structs import replace

from strowger_gateway.gateway.assembly.gateway import Gateway
from strowger_gateway.gateway.audit.event import AuditEvent
from strowger_gateway.gateway.console.admin.access import made_by, principal_of, role_required
from strowger_gateway.gateway.console.admin.governance.frame import error_page, shown
from strowger_gateway.gateway.console.admin.own_router import OwnRouter
from strowger_gateway.gateway.console.admin.parameters import TAKEN, parameters_known
from strowger_gateway.gateway.console.admin.part_calls import call_with_query, names_of
from strowger_gateway.gateway.console.admin.request_log.listing import find, matching
from strowger_gateway.gateway.console.admin.request_log.parameters import (
    FilterParameters,
    cursor_of,
)
from strowger_gateway.gateway.console.admin.request_log.routes import (
    allowed_filter,
    unknown_request,
)
from strowger_gateway.gateway.console.admin.request_log.stored_payload import may_read, payload_of
from strowger_gateway.gateway.console.admin.request_views.detail_section import (
    ShownRequest,
    detail_section,
)
from strowger_gateway.gateway.console.admin.request_views.list_section import (
    ShownRequests,
    list_section,
)
from strowger_gateway.gateway.observability.recording.process_side import AuditSide
from strowger_gateway.schemas.errors import GatewayError

_Request = Request[object, object, State]
TITLE: Final = "Requests"
ROWS: Final = 50


class ViewParameters(FilterParameters, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """after: the place in the list. live: the view refreshes by itself."""

    after: Annotated[str, Meta(max_length=200)] = ""
    live: bool = False


def request_views(current: Callable[[], Gateway]) -> OwnRouter:
    @get("/requests", role="viewer", include_in_schema=False, opt={TAKEN: names_of(ViewParameters)})
    async def requests(request: _Request) -> Response[str]:
        gateway, status = current(), 200
        given = call_with_query(gateway, request, ViewParameters).given
        part = ShownRequests(
            given=given,
            after=given.after,
            live=given.live and not given.after,
            payloads=may_read(principal_of(request.scope)),
        )
        try:
            wanted, after = allowed_filter(request, given), cursor_of(given.after)
            found = await matching(gateway, wanted, ROWS, after, totals=after is None)
            part = replace(part, found=found)
        except GatewayError as exc:
            part, status = replace(part, refused=exc.message, live=False), exc.status
        return await shown(gateway, request, TITLE, [list_section(part)], status)

    @get("/requests/{request_id:str}", role="viewer", include_in_schema=False)
    async def one_request(
        request: _Request,
        request_id: FromPath[str],
        payload: Annotated[bool, QueryParameter()] = False,
    ) -> Response[str]:
        gateway = current()
        found = await find(gateway, request_id)
        if found is None:
            raise unknown_request(request_id)
        allowed = may_read(principal_of(request.scope))
        stored = await payload_of(gateway, found.request_id) if allowed else None
        part = ShownRequest(
            request=found, payload="" if stored is None else found.request_id, may_read=allowed
        )
        if payload and stored is not None:
            facts = {"key": stored.key} if stored.key else {}
            by = made_by(gateway, request.scope)
            event = AuditEvent.by(by, "payload.read", target=found.request_id, facts=facts)
            gateway.side(AuditSide).log.record(event)
            part = replace(part, record=stored.record)
        return await shown(gateway, request, TITLE, [detail_section(part)])

    return OwnRouter(
        path="/view",
        guards=[role_required(current), parameters_known],
        route_handlers=[requests, one_request],
        exception_handlers={GatewayError: error_page(current, TITLE)},
    )
