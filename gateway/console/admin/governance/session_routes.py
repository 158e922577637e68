"""`/admin/view/sessions`: sessions of /admin in a browser, and ending them."""

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Literal

from litestar import Request, Response, get, post
from litestar.datastructures import State
from litestar.handlers import HTTPRouteHandler
from litestar.params import FromPath, FromQuery

from strowger_gateway.gateway.assembly.gateway import Gateway
from strowger_gateway.gateway.console.admin.governance.forms import FORM_BYTES
from strowger_gateway.gateway.console.admin.governance.frame import shown
from strowger_gateway.gateway.console.admin.governance.sessions import SessionPart, sessions_section
from strowger_gateway.gateway.console.admin.page.answers import redirect
from strowger_gateway.gateway.console.admin.sessions import end_session, visible_sessions
from strowger_gateway.gateway.platform.language import words_of
from strowger_gateway.schemas.errors import GatewayError, RouteNotFound

say = words_of(__file__)

_Request = Request[object, object, State]


def session_view_routes(current: Callable[[], Gateway]) -> list[HTTPRouteHandler]:
    @get("/sessions", role="viewer", include_in_schema=False)
    async def sessions(
        request: _Request, done: FromQuery[Literal["", "ended"]] = ""
    ) -> Response[str]:
        return await _part(request, current(), done=say("The session is ended.") if done else "")

    @post(
        "/sessions/{id:str}/end",
        role="viewer",
        status_code=200,
        include_in_schema=False,
        request_max_body_size=FORM_BYTES,
    )
    async def end(request: _Request, id: FromPath[str]) -> Response[str]:
        gateway = current()
        try:
            await end_session(gateway, request.scope, id)
        except RouteNotFound as exc:
            return await _part(request, gateway, refused=exc)
        return redirect("/admin/view/sessions?done=ended")

    return [sessions, end]


async def _part(
    request: _Request, gateway: Gateway, *, done: str = "", refused: GatewayError | None = None
) -> Response[str]:
    """Raises Unavailable."""
    part = SessionPart(
        sessions=await visible_sessions(gateway, request.scope),
        now=datetime.now(UTC),
        refused="" if refused is None else say("this session has ended already"),
        done=done,
    )
    status = 200 if refused is None else refused.status
    return await shown(gateway, request, "Sessions", [sessions_section(part)], status)
