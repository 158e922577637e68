"""`/admin/sessions`: who is signed in to /admin, and ending sessions."""

import logging
from collections.abc import Callable, Sequence
from datetime import UTC, datetime

from litestar import Request, delete, get
from litestar.datastructures import State
from litestar.handlers import HTTPRouteHandler
from litestar.params import FromPath
from litestar.types import Scope
from msgspec import Struct

from strowger_gateway.gateway.assembly.gateway import Gateway
from strowger_gateway.gateway.audit.event import AuditEvent
from strowger_gateway.gateway.config.schema.admin_oidc import Role
from strowger_gateway.gateway.console.admin.access import SCHEME, made_by, principal_of, session_of
from strowger_gateway.gateway.governance.sessions.principal import Kind, Principal
from strowger_gateway.gateway.governance.sessions.process_side import SessionsSide
from strowger_gateway.gateway.observability.recording.process_side import AuditSide
from strowger_gateway.gateway.storage.sql.session_rows import AdminSession
from strowger_gateway.schemas.errors import RouteNotFound

_Request = Request[object, object, State]
_log = logging.getLogger("strowger.sessions")


class SessionView(Struct, frozen=True, kw_only=True):
    """A session of a browser.

    kind: opened with the `admin key`, or through the identity `provider`. subject: the provider's
    id of the person. last_seen: within half a minute. current: of this request.
    """

    id: str
    who: str
    kind: Kind
    subject: str
    role: Role
    teams: tuple[str, ...]
    address: str
    since: datetime
    last_seen: datetime
    expires: datetime
    current: bool


class SessionList(Struct, frozen=True, kw_only=True):
    sessions: list[SessionView]


def session_routes(current: Callable[[], Gateway]) -> list[HTTPRouteHandler]:
    @get(
        "/sessions",
        role="viewer",
        summary="Sessions of /admin: all of them for admins, else one's own",
        security=[{SCHEME: []}],
    )
    async def listed(request: _Request) -> SessionList:
        return SessionList(sessions=await visible_sessions(current(), request.scope))

    @delete(
        "/sessions/{id:str}",
        status_code=200,
        role="viewer",
        summary="End a session in every process; admins may end all, others their own",
        security=[{SCHEME: []}],
    )
    async def end(id: FromPath[str], request: _Request) -> SessionView:
        return await end_session(current(), request.scope, id)

    return [listed, end]


async def visible_sessions(gateway: Gateway, scope: Scope) -> list[SessionView]:
    """Return all sessions to admins, their own to others. Raises Unavailable."""
    return [_view(one, scope) for one in await _visible(gateway, scope)]


async def end_session(gateway: Gateway, scope: Scope, id: str) -> SessionView:
    """End one of the visible sessions in every process. Raises RouteNotFound, Unavailable."""
    for one in await _visible(gateway, scope):
        if one.id == id:
            await gateway.side(SessionsSide).desk.end(one)
            by = made_by(gateway, scope)
            _log.warning("session of %s ended by %s", one.name, by.label)
            ended = AuditEvent.by(by, "session.end", target=one.name, facts={"session": one.id})
            gateway.side(AuditSide).log.record(ended)
            return _view(one, scope)
    raise RouteNotFound(
        f"no session {id!r}; GET /admin/sessions lists them", code="session_not_found"
    )


async def _visible(gateway: Gateway, scope: Scope) -> Sequence[AdminSession]:
    who = principal_of(scope)
    return [
        one
        for one in await gateway.side(SessionsSide).desk.all()
        if who.may("admin") or _own(one, who)
    ]


def _own(session: AdminSession, who: Principal) -> bool:
    return (session.kind, session.subject) == (who.kind, who.subject)


def _view(session: AdminSession, scope: Scope) -> SessionView:
    mine = session_of(scope)
    return SessionView(
        id=session.id,
        who=session.name,
        kind=session.kind,
        subject=session.subject,
        role=session.role,
        teams=session.teams,
        address=session.address,
        since=datetime.fromtimestamp(session.since, UTC),
        last_seen=datetime.fromtimestamp(session.seen, UTC),
        expires=datetime.fromtimestamp(session.expires, UTC),
        current=mine is not None and mine.id == session.id,
    )
