"""`/admin/view/audit`: the audit log in a browser."""

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Annotated, Final

import msgspec
from litestar import Request, Response, get
from litestar.datastructures import State
from litestar.handlers import HTTPRouteHandler
from litestar.params import QueryParameter

from strowger_gateway.gateway.assembly.gateway import Gateway
from strowger_gateway.gateway.audit.event import LONGEST
from strowger_gateway.gateway.console.admin.audit import LAST, audit_page, audit_query
from strowger_gateway.gateway.console.admin.governance.audit import ShownAudit, audit_section
from strowger_gateway.gateway.console.admin.governance.frame import shown
from strowger_gateway.schemas.errors import GatewayError

_Request = Request[object, object, State]
_ROWS: Final = 100


def audit_view_route(current: Callable[[], Gateway]) -> HTTPRouteHandler:
    @get("/audit", role="viewer", include_in_schema=False)
    async def audit(
        request: _Request,
        action: Annotated[str, QueryParameter(max_length=LONGEST)] = "",
        actor: Annotated[str, QueryParameter(max_length=LONGEST)] = "",
        target: Annotated[str, QueryParameter(max_length=LONGEST)] = "",
        since: Annotated[str, QueryParameter(max_length=LONGEST)] = "",
        before: Annotated[int | None, QueryParameter(ge=1, le=LAST)] = None,
    ) -> Response[str]:
        gateway, status = current(), 200
        part = ShownAudit(
            page=None,
            now=datetime.now(UTC),
            action=action,
            actor=actor.strip(),
            target=target.strip(),
            since=since,
        )
        try:
            query = audit_query(
                since=f"{since}T00:00:00Z" if since else "",
                actor=part.actor,
                action=action,
                target=part.target,
                before=before,
                limit=_ROWS,
            )
            part = msgspec.structs.replace(part, page=await audit_page(gateway, query))
        except GatewayError as exc:
            part, status = msgspec.structs.replace(part, refused=exc.message), exc.status
        return await shown(gateway, request, "Audit", [audit_section(part)], status)

    return audit
