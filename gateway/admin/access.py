"""Who may use /admin: whoever sends the operator's key, or reads with a session begun with it."""

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
"""What the API's description calls this way in."""

Actor = Literal["admin key", "session", ""]
ACTOR, DENIED = "strowger.actor", "strowger.denied"
"""In the scope's state: as whom a request signed in, and why it was refused."""

_READING = ("GET", "HEAD")
_Guard = Callable[[_Connection, BaseRouteHandler], None]


def admin_exists(current: Callable[[], AdminKey]) -> _Guard:
    """Without a key configured, /admin does not exist."""

    def guard(connection: _Connection, handler: BaseRouteHandler) -> None:
        if not current().set:
            path = connection.scope["path"]
            raise RouteNotFound(f"there is nothing at {path}; auth.admin_key opens /admin")

    return guard


def admin_only(current: Callable[[], AdminKey], ended: EndedSessionList) -> _Guard:
    """Lets the operator through, after `admin_exists`.

    A browser's session only reads: what changes something takes the key itself, which no browser
    sends by itself.
    """

    def guard(connection: _Connection, handler: BaseRouteHandler) -> None:
        key = current()
        scope = connection.scope
        headers = scope["headers"]
        reads = scope["type"] == "http" and scope["method"] in _READING
        if not key.opens(headers) and not (reads and signed_in(key, ended, headers)):
            sent = any(name == b"authorization" for name, _ in headers)
            raise (WrongKey if sent else Unauthenticated)(
                "/admin needs the operator's key; use the header `Authorization: Bearer <key>`"
            )

    return guard


def actor(key: AdminKey, ended: EndedSessionList, headers: Iterable[tuple[bytes, bytes]]) -> Actor:
    """As whom a request comes, for the log; "" for nobody known."""
    if key.opens(headers):
        return "admin key"
    return "session" if signed_in(key, ended, headers) else ""
