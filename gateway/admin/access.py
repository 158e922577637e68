"""Who may use /admin: whoever sends the operator's key."""

from collections.abc import Callable

from litestar.connection import ASGIConnection
from litestar.datastructures import State
from litestar.handlers import BaseRouteHandler

from gateway.auth import AdminKey
from schemas.errors import RouteNotFound, Unauthenticated

_Connection = ASGIConnection[BaseRouteHandler, object, object, State]
SCHEME = "admin_key"
"""What the API's description calls this way in."""


def admin_only(current: Callable[[], AdminKey]) -> Callable[[_Connection, BaseRouteHandler], None]:
    """Lets the operator through. Without a key configured, /admin does not exist."""

    def guard(connection: _Connection, handler: BaseRouteHandler) -> None:
        key = current()
        if not key.set:
            path = connection.scope["path"]
            raise RouteNotFound(f"there is nothing at {path}; auth.admin_key opens /admin")
        if not key.opens(connection.scope["headers"]):
            raise Unauthenticated(
                "/admin needs the operator's key; use the header `Authorization: Bearer <key>`"
            )

    return guard
