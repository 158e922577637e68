"""All of /admin: a new route of the operator's is a line here."""

from collections.abc import Callable

from litestar import Router

from gateway.admin.access import admin_only
from gateway.admin.engines import engines_route
from gateway.state import Gateway


def admin_routes(current: Callable[[], Gateway]) -> Router:
    return Router(
        path="/admin",
        guards=[admin_only(lambda: current().runtime.admin_key)],
        route_handlers=[engines_route(current)],
        tags=["admin"],
    )
