"""Access to /admin: with the operator's key, or read-only with a session opened with it."""

from collections.abc import Callable, Iterable
from typing import Literal

from litestar.connection import ASGIConnection
from litestar.datastructures import State
from litestar.handlers import BaseRouteHandler

from gateway.access.auth import AdminKey, WrongKey
from gateway.admin.session import EndedSessionList, signed_in
from schemas.errors import RouteNotFound, Unauthenticated

_Connection = ASGIConnection[BaseRouteHandler, object, object, State]
SCHEME = "admin_key"
"""Name of the security scheme in the API description."""

Actor = Literal["admin key", "session", ""]
ACTOR, DENIED = "strowger.actor", "strowger.denied"
"""Keys in the scope's state: who signed in, and why a request was rejected."""

_READING = ("GET", "HEAD")
_Guard = Callable[[_Connection, BaseRouteHandler], None]


def admin_exists(current: Callable[[], AdminKey]) -> _Guard:
    """Guard: respond 404 under /admin if no key is configured."""

    def guard(connection: _Connection, handler: BaseRouteHandler) -> None:
        if not current().set:
            path = connection.scope["path"]
            raise RouteNotFound(f"no route {path}; set auth.admin_key to enable /admin")

    return guard


def admin_only(current: Callable[[], AdminKey], ended: EndedSessionList) -> _Guard:
    """Guard: require the operator's key. Runs after `admin_exists`.

    A browser session is read-only: changes require the key itself, which a browser never sends on
    its own.
    """

    def guard(connection: _Connection, handler: BaseRouteHandler) -> None:
        key = current()
        scope = connection.scope
        headers = scope["headers"]
        reads = scope["type"] == "http" and scope["method"] in _READING
        if not key.opens(headers) and not (reads and signed_in(key, ended, headers)):
            sent = any(name == b"authorization" for name, _ in headers)
            raise (WrongKey if sent else Unauthenticated)(
                "/admin requires the operator's key; send the header `Authorization: Bearer <key>`"
            )

    return guard


def actor(key: AdminKey, ended: EndedSessionList, headers: Iterable[tuple[bytes, bytes]]) -> Actor:
    """Return who sent a request, to be logged; "" if unknown."""
    if key.opens(headers):
        return "admin key"
    return "session" if signed_in(key, ended, headers) else ""
