"""`/admin/view/NAME`: the views of parts, each in the document of the page."""

import logging
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Any

from litestar import Request, Response, get, post
from litestar.datastructures import State
from litestar.handlers import HTTPRouteHandler

from strowger_gateway.gateway.assembly.gateway import Gateway
from strowger_gateway.gateway.console.admin.access import REQUEST_ID, role_required
from strowger_gateway.gateway.console.admin.governance.forms import FORM_BYTES, form_of
from strowger_gateway.gateway.console.admin.governance.frame import error_page, shown
from strowger_gateway.gateway.console.admin.own_router import OwnRouter
from strowger_gateway.gateway.console.admin.page.answers import redirect
from strowger_gateway.gateway.console.admin.parameters import TAKEN, parameters_known
from strowger_gateway.gateway.console.admin.part_calls import (
    call_with,
    call_with_query,
    change,
    names_of,
    views_of,
)
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
        with _bugs_shown(gateway, request, view):
            sections = await view.render(call_with_query(gateway, request, view.takes))
        return await shown(gateway, request, view.title, [sections])

    return OwnRouter(
        path="/view",
        guards=[role_required(current), parameters_known],
        route_handlers=[show, *(_form(current, view, name) for name in view.forms)],
        exception_handlers={GatewayError: error_page(current, view.title)},
    )


def _form(current: Callable[[], Gateway], view: PageView[Any], name: str) -> HTTPRouteHandler:
    route = view.forms[name]

    @post(
        f"/{view.name}/{name}",
        role=route.role,
        include_in_schema=False,
        request_max_body_size=FORM_BYTES,
    )
    async def submit(request: _Request) -> Response[str]:
        gateway = current()
        call = call_with(gateway, request, route.takes, await form_of(request))
        with _bugs_shown(gateway, request, view):
            await change(gateway, request, route, call)
        return redirect(f"/admin/view/{view.name}")

    return submit


@contextmanager
def _bugs_shown(gateway: Gateway, request: _Request, view: PageView[Any]) -> Generator[None]:
    """Raise a GatewayError, which the page shows, for a bug in a view."""
    try:
        yield
    except GatewayError:
        raise
    except Exception as exc:
        raise _bug(gateway, request, view, exc) from exc


def _bug(gateway: Gateway, request: _Request, view: PageView[Any], exc: Exception) -> GatewayError:
    """Log and count a bug in a view; return what the page shows in its place."""
    route, request_id = f"/admin/view/{view.name}", str(request.scope["state"].get(REQUEST_ID, ""))
    told = "request %s at %s %s failed: bug in the view"
    _log.error(told, request_id, request.method, route, exc_info=exc)
    gateway.log.metrics.internal_errors.count(route)
    return GatewayError(f"internal error; the gateway's log has the request id {request_id}")
