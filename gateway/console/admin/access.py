"""Access to /admin: with the operator's key, or with a browser's session and the role it has.

Each handler names the role it needs: `@get("/engines", role="viewer")`. A handler that names none
needs `admin`.
"""

from collections.abc import Awaitable, Callable
from typing import Final, Literal, cast

from litestar.connection import ASGIConnection
from litestar.datastructures import State
from litestar.handlers import BaseRouteHandler
from litestar.types import Scope

from strowger_gateway.gateway.assembly.gateway import Gateway
from strowger_gateway.gateway.audit.event import Actor
from strowger_gateway.gateway.config.schema.admin_oidc import Role
from strowger_gateway.gateway.console.admin.same_origin import over_tls, surely_from_here
from strowger_gateway.gateway.governance.access.auth import WrongKey
from strowger_gateway.gateway.governance.sessions.principal import KEY_HOLDER, Principal
from strowger_gateway.gateway.governance.sessions.process_side import SessionsSide
from strowger_gateway.gateway.storage.sql.session_rows import AdminSession
from strowger_gateway.schemas.errors import Forbidden, RouteNotFound, Unauthenticated

_Connection = ASGIConnection[BaseRouteHandler, object, object, State]
_Guard = Callable[[_Connection, BaseRouteHandler], None]
_AsyncGuard = Callable[[_Connection, BaseRouteHandler], Awaitable[None]]
SCHEME = "admin_key"
"""Name of the security scheme in the API description."""

NEEDS: Final = "role"
PUBLIC: Final = "public"
"""The entry in a handler's `opt`, and its value for what a browser gets before it signs in."""

ACTOR, DENIED, REQUEST_ID = "strowger.actor", "strowger.denied", "strowger.request_id"
"""Keys in the scope's state: the client for the log, why it was rejected, and the request's id."""

_PRINCIPAL, _SESSION = "strowger.principal", "strowger.session"
_READING = ("GET", "HEAD")


def admin_exists(current: Callable[[], Gateway]) -> _Guard:
    """Guard: respond 404 under /admin if the configuration has no way in."""

    def guard(connection: _Connection, handler: BaseRouteHandler) -> None:
        if not current().runtime.config.auth.admin:
            path = connection.scope["path"]
            raise RouteNotFound(
                f"no route {path}; set auth.admin_key or auth.admin_oidc to enable /admin"
            )

    return guard


def role_needed(handler: BaseRouteHandler) -> Role | Literal["public"]:
    """Return the role that a handler needs, `admin` if it names none."""
    return handler.opt.get(NEEDS, "admin")


def role_required(current: Callable[[], Gateway]) -> _AsyncGuard:
    """Guard: require the operator's key, or a session with the handler's role.

    A session changes something only for requests of the gateway's own pages, because a browser
    sends its cookie by itself. Runs after `admin_exists`.
    """

    async def guard(connection: _Connection, handler: BaseRouteHandler) -> None:
        gateway, scope = current(), connection.scope
        needed = role_needed(handler)
        if needed == PUBLIC:
            return
        who = await identify(gateway, scope)
        if who is None:
            sent = any(name == b"authorization" for name, _ in scope["headers"])
            raise (WrongKey if sent else Unauthenticated)(
                "/admin requires the operator's key, sent as `Authorization: Bearer <key>`, or a "
                "session: sign in at /admin"
            )
        if not who.may(needed):
            raise Forbidden(
                f"this requires the role {needed}; {who.name} has the role {who.role}",
                code="role_not_allowed",
            )
        reads = scope["type"] == "http" and scope["method"] in _READING
        if not reads and session_of(scope) is not None:
            check_own_page(gateway, scope)

    return guard


async def identify(gateway: Gateway, scope: Scope) -> Principal | None:
    """Return who sends a request, and keep it for `principal_of` and the log.

    Raises Unavailable if a session cannot be checked now.
    """
    headers, state = scope["headers"], scope["state"]
    if gateway.runtime.access.admin_key.opens(headers):
        who, state[ACTOR] = KEY_HOLDER, "admin key"
    else:
        secure = over_tls(scope, public_url(gateway))
        session = await gateway.side(SessionsSide).desk.find(headers, secure=secure)
        if session is None:
            return None
        who = _holder(session)
        state[_SESSION] = session
        state[ACTOR] = "session" if who.kind == "admin key" else who.name
    state[_PRINCIPAL] = who
    return who


def principal_of(scope: Scope) -> Principal:
    """Return who sends a request that `role_required` has let through."""
    return cast(Principal, scope["state"][_PRINCIPAL])


def was_identified(scope: Scope) -> bool:
    """Return whether `principal_of` is known, also of a request that is refused for its role."""
    return _PRINCIPAL in scope["state"]


def session_of(scope: Scope) -> AdminSession | None:
    """Return the session of a request; `None` if it carries the operator's key."""
    return cast("AdminSession | None", scope["state"].get(_SESSION))


def made_by(gateway: Gateway, scope: Scope) -> Actor:
    """Return who sent a request, also one that was refused, for logs and the audit log."""
    who = cast("Principal | None", scope["state"].get(_PRINCIPAL))
    if who is None and gateway.runtime.access.admin_key.opens(scope["headers"]):
        who = KEY_HOLDER
    session = session_of(scope)
    return audit_actor(gateway, scope, who, "" if session is None else session.id)


def audit_actor(gateway: Gateway, scope: Scope, who: Principal | None, session: str) -> Actor:
    """Return who sends a request as logs and the audit log show it.

    who: `None` for a client that has not proved who it is. session: its id, "" without one.
    """
    clients = gateway.runtime.access.clients
    where = clients.of(scope) if scope["type"] == "http" else ""
    label = "an unknown client" if who is None else who.name
    return Actor(
        kind="unknown" if who is None else "admin_key" if who.kind == "admin key" else "session",
        name="" if who is None or who.kind == "admin key" else _named(who),
        session=session,
        address=clients.address(scope),
        label=f"{label} from {where}" if where else label,
    )


def _named(who: Principal) -> str:
    """Return a person's name, and the provider's id of the person, which no other one can have."""
    return who.name if who.subject in ("", who.name) else f"{who.name} ({who.subject})"


def public_url(gateway: Gateway) -> str:
    """Return the gateway's address in browsers; "" if it is not known."""
    provider = gateway.runtime.config.auth.admin_oidc
    return "" if provider is None else provider.public_url


def check_own_page(gateway: Gateway, scope: Scope) -> None:
    """Raise Forbidden unless a page of the gateway sends the request."""
    if not surely_from_here(scope["headers"], public_url(gateway)):
        raise Forbidden(
            "cross-site requests are not allowed with a session; programs send the operator's key "
            "as `Authorization: Bearer <key>`",
            code="cross_site",
        )


def _holder(session: AdminSession) -> Principal:
    return Principal(
        kind=session.kind,
        name=session.name,
        role=session.role,
        subject=session.subject,
        teams=session.teams,
    )
