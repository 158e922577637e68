"""`/admin/view/NAME`: the views of parts, each in the document of the page."""

import logging
from collections.abc import Callable
from typing import Any

from litestar import Request, Response, get
from litestar.datastructures import State

from strowger_gateway.gateway.assembly.gateway import Gateway
from strowger_gateway.gateway.console.admin.access import REQUEST_ID, role_required
from strowger_gateway.gateway.console.admin.governance.frame import error_page, shown
from strowger_gateway.gateway.console.admin.own_router import OwnRouter
from strowger_gateway.gateway.console.admin.parameters import TAKEN, parameters_known
from strowger_gateway.gateway.console.admin.part_calls import call_with_query, names_of, views_of
from strowger_gateway.gateway.parts.console import PageView
from strowger_gateway.schemas.errors import GatewayError

_Request = Request[object, object, State]
_log = logging.getLogger("strowger")


def part_views(current: Callable[[], Gateway]) -> list[OwnRouter]:
    """Build a router for each view of each part."""
    return [_router(current, view) for view in views_of(current())]


def _router(current: Callable[[], Gateway], view: PageView[Any]) -> OwnRouter:
    @get(
        f"/{view.name}",
        role=view.role,
        include_in_schema=False,
        opt={TAKEN: names_of(view.takes)},
    )
    async def show(request: _Request) -> Response[str]:
        gateway = current()
        call = call_with_query(gateway, request, view.takes)
        try:
            sections = await view.render(call)
        except GatewayError:
            raise
        except Exception as exc:
            raise _bug(gateway, request, view, exc) from exc
        return shown(gateway, request, view.title, [sections])

    return OwnRouter(
        path="/view",
        guards=[role_required(current), parameters_known],
        route_handlers=[show],
        exception_handlers={GatewayError: error_page(current, view.title)},
    )


def _bug(gateway: Gateway, request: _Request, view: PageView[Any], exc: Exception) -> GatewayError:
    """Log and count a bug in a view; return what the page shows in its place."""
    route, request_id = f"/admin/view/{view.name}", str(request.scope["state"].get(REQUEST_ID, ""))
    _log.error("request %s at GET %s failed: bug in the view", request_id, route, exc_info=exc)
    gateway.log.metrics.internal_errors.count(route)
    return GatewayError(f"internal error; the gateway's log has the request id {request_id}")
