"""`/admin` in a browser: signing in and out, the page, and its refresh every two seconds."""

import logging
from collections.abc import Callable
from urllib.parse import parse_qs

from litestar import Request, Response, get, post
from litestar.datastructures import State
from litestar.params import FromPath, FromQuery
from litestar.types import ControllerRouterHandler
from markupsafe import Markup

from gateway.access.auth import EVERYONE, too_many_wrong_keys
from gateway.admin.access import ACTOR, DENIED
from gateway.admin.page.chat import chat_section
from gateway.admin.page.document import page, sign_in_page
from gateway.admin.page.overview import footer_text, live_sections
from gateway.admin.page.same_origin import from_here
from gateway.admin.page.static_files import read_files
from gateway.admin.session import Sessions, set_cookie, sign_out, signed_in
from gateway.state import Gateway
from gateway.telemetry.time_series import Window
from schemas.errors import Forbidden, RouteNotFound

_Request = Request[object, object, State]
_HTML = "text/html"
_FORM_BYTES = 8192
_ENDED_HERE = (
    "Signed out in this browser. The revocation could not be saved, so a copy of the cookie may "
    "still work: change auth.admin_key if one may exist."
)
_log = logging.getLogger("strowger")
_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
_GUARDED = {
    "content-security-policy": _POLICY,
    "cache-control": "no-store",
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
}
"""Only our own script runs, no other site can frame the page, and nothing is cached."""


def page_routes(current: Callable[[], Gateway]) -> list[ControllerRouterHandler]:
    """Build the routes that a browser reaches before signing in."""

    @get("/", include_in_schema=False)
    async def show(request: _Request, window: FromQuery[Window] = "5m") -> Response[str]:
        gateway = current()
        key, headers = gateway.runtime.admin_key, request.scope["headers"]
        if not key.opens(headers) and not signed_in(key, gateway.ended_sessions, headers):
            return _to("/admin/sign-in")
        state, *sections, recent = await live_sections(gateway, window)
        config = gateway.runtime.config
        box = chat_section(
            gateway.model_names(EVERYONE),
            keys=config.auth.mode != "none",
            experiments=config.experiments,
        )
        footer = footer_text(gateway)
        return _html(page(state, sections, (recent, box), window=window, footer=footer))

    @get("/sign-in", include_in_schema=False)
    async def ask(request: _Request) -> Response[str]:
        gateway = current()
        if signed_in(gateway.runtime.admin_key, gateway.ended_sessions, request.scope["headers"]):
            return _to("/admin")
        return _html(sign_in_page())

    @post("/sign-in", include_in_schema=False, request_max_body_size=_FORM_BYTES)
    async def sign_in(request: _Request) -> Response[str]:
        _check_origin(request)
        gateway = current()
        key = gateway.runtime.admin_key
        fields = parse_qs((await request.body()).decode("latin-1"), encoding="utf-8")
        if not key.is_key(fields.get("key", [""])[0].strip().encode()):
            request.scope["state"][DENIED] = "wrong operator key"
            client = gateway.runtime.clients.of(request.scope)
            if retry_after := await gateway.wrong_keys.delay_answer(request.scope, client):
                raise too_many_wrong_keys(retry_after)
            return _html(sign_in_page("Wrong operator key."), 401)
        request.scope["state"][ACTOR] = "admin key"
        session = Sessions(key, gateway.ended_sessions).begin()
        return _to("/admin", set_cookie(session, secure=_over_tls(request)))

    @post("/sign-out", include_in_schema=False)
    async def leave(request: _Request) -> Response[str]:
        _check_origin(request)
        gateway, headers = current(), request.scope["headers"]
        key = gateway.runtime.admin_key
        if signed_in(key, gateway.ended_sessions, headers):
            request.scope["state"][ACTOR] = "session"
        cookie = set_cookie("", secure=_over_tls(request), lasts_s=0)
        try:
            sign_out(key, gateway.ended_sessions, headers)
        except OSError as exc:
            _log.error("sign-out not saved, other processes still accept the session: %s", exc)
            answer = _html(sign_in_page(_ENDED_HERE), 503)
            answer.headers["set-cookie"] = cookie
            return answer
        return _to("/admin/sign-in", cookie)

    return [show, ask, sign_in, leave, _static()]


def live_route(current: Callable[[], Gateway]) -> ControllerRouterHandler:
    """Build the route that returns the sections that change, as HTML."""

    @get("/live", include_in_schema=False)
    async def live(window: FromQuery[Window] = "5m") -> Response[str]:
        gateway = current()
        return _html(Markup().join(await live_sections(gateway, window)))

    return live


def _static() -> ControllerRouterHandler:
    files = read_files()

    @get("/static/{name:str}", include_in_schema=False)
    async def static(request: _Request, name: FromPath[str]) -> Response[bytes]:
        file = files.get(name)
        if file is None:
            raise RouteNotFound(f"no route {request.scope['path']}")
        headers = {**_GUARDED, "cache-control": "no-cache", "etag": file.tag}
        known_tags = request.headers.get("if-none-match", "")
        if file.tag in [tag.strip().removeprefix("W/") for tag in known_tags.split(",")]:
            return Response(b"", status_code=304, headers=headers)
        return Response(file.content, media_type=file.media_type, headers=headers)

    return static


def _check_origin(request: _Request) -> None:
    if not from_here(request.scope["headers"]):
        raise Forbidden("cross-site requests to this form are not allowed")


def _over_tls(request: _Request) -> bool:
    """True if the browser uses https, as far as is known; the cookie is then `Secure`."""
    return "https" in (request.scope["scheme"], request.headers.get("x-forwarded-proto"))


def _html(text: str, status: int = 200) -> Response[str]:
    return Response(str(text), status_code=status, media_type=_HTML, headers=_GUARDED)


def _to(path: str, cookie: str | None = None) -> Response[str]:
    headers = {**_GUARDED, "location": path}
    if cookie is not None:
        headers["set-cookie"] = cookie
    return Response("", status_code=303, media_type=_HTML, headers=headers)
