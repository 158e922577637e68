"""Sign in to the page with the operator's key or the identity provider, and sign out."""

import logging
from collections.abc import Callable, Mapping
from urllib.parse import parse_qs, quote

from litestar import Request, Response, get, post
from litestar.datastructures import Cookie, State
from litestar.types import ControllerRouterHandler, HTTPScope, Scope

from strowger_gateway.gateway.assembly.gateway import Gateway
from strowger_gateway.gateway.audit.event import AuditEvent
from strowger_gateway.gateway.config.schema.admin_oidc import AdminOidc
from strowger_gateway.gateway.console.admin.access import (
    ACTOR,
    DENIED,
    PUBLIC,
    audit_actor,
    identify,
    public_url,
)
from strowger_gateway.gateway.console.admin.page.answers import html, redirect
from strowger_gateway.gateway.console.admin.page.door import sign_in_page, signed_in_page
from strowger_gateway.gateway.console.admin.same_origin import from_here, over_tls
from strowger_gateway.gateway.governance.access.auth import too_many_wrong_keys
from strowger_gateway.gateway.governance.access.process_side import WrongKeysSide
from strowger_gateway.gateway.governance.access.wrong_keys import client_network
from strowger_gateway.gateway.governance.sessions.cookie import cookies, session_cookies
from strowger_gateway.gateway.governance.sessions.desk import Opened
from strowger_gateway.gateway.governance.sessions.principal import KEY_HOLDER, Principal
from strowger_gateway.gateway.governance.sessions.process_side import SessionsSide
from strowger_gateway.gateway.governance.sign_in.attempt import (
    HOME,
    LASTS_S,
    SignInAttempt,
    attempt_of,
    local_path,
    new_attempt,
)
from strowger_gateway.gateway.governance.sign_in.person import person_of
from strowger_gateway.gateway.governance.sign_in.refusals import (
    RefusedByProvider,
    WrongAttempt,
    error_code,
)
from strowger_gateway.gateway.observability.recording.process_side import AuditSide
from strowger_gateway.gateway.platform.language import words_of
from strowger_gateway.schemas.errors import (
    Forbidden,
    GatewayError,
    RouteNotFound,
    Throttled,
    Unavailable,
)
from strowger_gateway.schemas.holdings import Holder

say = words_of(__file__)

_Request = Request[object, object, State]
_FORM_BYTES, _QUERY_BYTES = 8192, 8192
_PATH = "/admin/sign-in"
_RETURN = "return_to"
_log = logging.getLogger("strowger.sign_in")


def sign_in_path(scope: Scope) -> str:
    """Return where to sign in, and to come back afterwards to what was requested."""
    query = scope["query_string"].decode("latin-1")
    wanted = local_path(f"{scope['path']}?{query}" if query else scope["path"])
    return _PATH if wanted == HOME else f"{_PATH}?{_RETURN}={quote(wanted, safe='')}"


def unchecked(gateway: Gateway, exc: GatewayError) -> Response[str]:
    """Let someone sign in again whose session cannot be checked now."""
    return html(_form(gateway, _sentence(exc.message)), exc.status)


def sign_in_routes(current: Callable[[], Gateway]) -> list[ControllerRouterHandler]:
    """Build the routes that a browser reaches before signing in, and the one to sign out."""
    return [*_with_key(current), *_with_provider(current), _sign_out(current)]


def _with_key(current: Callable[[], Gateway]) -> list[ControllerRouterHandler]:
    @get("/sign-in", role=PUBLIC, include_in_schema=False)
    async def ask(request: _Request) -> Response[str]:
        gateway, wanted = current(), _wanted(_query(request))
        try:
            who = await identify(gateway, request.scope)
        except Unavailable as exc:
            return unchecked(gateway, exc)
        if who is not None:
            return redirect(wanted)
        return html(_form(gateway, return_to=wanted))

    @post("/sign-in", role=PUBLIC, include_in_schema=False, request_max_body_size=_FORM_BYTES)
    async def sign_in(request: _Request) -> Response[str]:
        gateway = current()
        _check_origin(request, gateway)
        key = gateway.runtime.access.admin_key
        fields = _fields((await request.body()).decode("latin-1"))
        wanted = _wanted(fields)
        if not key.is_key(fields.get("key", "").strip().encode()):
            request.scope["state"][DENIED] = "wrong operator key"
            client = gateway.runtime.access.clients.of(request.scope)
            if retry_after := await gateway.side(WrongKeysSide).throttle.delay_answer(
                request.scope, client
            ):
                raise too_many_wrong_keys(retry_after)
            return html(_form(gateway, say("Wrong operator key."), wanted), 401)
        request.scope["state"][ACTOR] = KEY_HOLDER.name
        opened = await _opened(gateway, request, KEY_HOLDER)
        return redirect(wanted, _cookies(opened, secure=_over_tls(gateway, request)))

    return [ask, sign_in]


def _with_provider(current: Callable[[], Gateway]) -> list[ControllerRouterHandler]:
    @get("/sign-in/provider", role=PUBLIC, include_in_schema=False)
    async def begin(request: _Request) -> Response[str]:
        gateway, wanted = current(), _wanted(_query(request))
        provider = gateway.runtime.access.sign_in
        if provider is None:
            raise _no_provider(request.scope)
        attempt = new_attempt(wanted, gateway.side(SessionsSide).desk.clock())
        try:
            url = await provider.authorization_url(attempt)
        except GatewayError as exc:
            return _refused(gateway, request, exc)
        return redirect(url, [_attempt_cookie(attempt.cookie, provider.settings)])

    @get("/sign-in/callback", role=PUBLIC, include_in_schema=False)
    async def callback(request: _Request) -> Response[str]:
        gateway = current()
        provider = gateway.runtime.access.sign_in
        if provider is None:
            raise _no_provider(request.scope)
        settings, scope = provider.settings, request.scope
        where, failed = gateway.runtime.access.clients.of(scope), gateway.side(SessionsSide).failed
        try:
            attempt, query = _attempt(request, gateway), _query(request)
        except WrongAttempt as exc:
            # Only those that began no sign-in wait for others at their address: a proxy is one.
            if wait_s := failed.wait_s(scope, where):
                return _refused(gateway, request, _too_many(wait_s))
            failed.note_failure(scope, where)
            return _refused(gateway, request, exc)
        forget = _attempt_cookie("", settings)
        try:
            who = await _person(gateway, attempt, query, Holder(client_network(scope, where)))
            scope["state"][ACTOR] = who.name
            opened = await _opened(gateway, request, who, attempt)
        except GatewayError as exc:
            if not isinstance(exc, Forbidden | Unavailable):
                failed.note_failure(scope, where)
            return _refused(gateway, request, exc, forget)
        secure = _secure(settings)
        return html(
            signed_in_page(who, attempt.return_to),
            cookies=[*_cookies(opened, secure=secure), forget],
        )

    return [begin, callback]


def _sign_out(current: Callable[[], Gateway]) -> ControllerRouterHandler:
    @post("/sign-out", role=PUBLIC, include_in_schema=False)
    async def leave(request: _Request) -> Response[str]:
        gateway = current()
        _check_origin(request, gateway)
        ended = session_cookies("", secure=_over_tls(gateway, request), lasts_s=0)
        try:
            await identify(gateway, request.scope)
            await gateway.side(SessionsSide).desk.sign_out(request.scope["headers"])
        except Unavailable as exc:
            return html(
                _form(gateway, say("Signed out in this browser: {why}.", why=exc.message)),
                503,
                ended,
            )
        return redirect(_PATH, ended)

    return leave


async def _person(
    gateway: Gateway, attempt: SignInAttempt, query: Mapping[str, str], client: Holder
) -> Principal:
    """Return who the provider says has signed in. Raises GatewayError.

    client: whose turn it is to have a code exchanged.
    """
    provider = gateway.runtime.access.sign_in
    assert provider is not None
    if "error" in query:
        code = error_code(query["error"]) or "an unreadable error"
        raise RefusedByProvider(f"{provider.settings.name} refused the sign-in: {code}")
    if not query.get("code"):
        raise WrongAttempt("the provider's answer has neither a code nor an error; start again")
    claims = await provider.claims(attempt, query["code"], query.get("iss"), client)
    return person_of(claims, provider.settings)


def _attempt(request: _Request, gateway: Gateway) -> SignInAttempt:
    """Return the sign-in that a provider's answer belongs to. Raises WrongAttempt."""
    provider = gateway.runtime.access.sign_in
    assert provider is not None
    query, at = _query(request), gateway.side(SessionsSide).desk.clock()
    name = _attempt_name(provider.settings)
    found = [attempt_of(one, at) for one in cookies(request.scope["headers"], name)]
    attempts = [one for one in found if one is not None]
    if not attempts:
        raise WrongAttempt(
            "no sign-in was started in this browser in the last 10 minutes, or it blocks cookies; "
            "start again"
        )
    for attempt in attempts:
        if attempt.is_state(query.get("state", "")):
            return attempt
    raise WrongAttempt(
        "the provider's answer has "
        + ("no state" if "state" not in query else "the state of another sign-in")
        + "; start again, in one tab only"
    )


async def _opened(
    gateway: Gateway, request: _Request, who: Principal, attempt: SignInAttempt | None = None
) -> Opened:
    """Open a session in place of the one that the browser has. Raises GatewayError."""
    where = gateway.runtime.access.clients.of(request.scope)
    opened = await gateway.side(SessionsSide).desk.begin(
        who, where, "" if attempt is None else attempt.origin
    )
    try:
        await gateway.side(SessionsSide).desk.sign_out(request.scope["headers"])
    except Unavailable as exc:
        _log.warning("the browser's earlier session was not ended everywhere: %s", exc)
    _log.warning("%s signed in to /admin as %s%s", who.name, who.role, where and f" from {where}")
    by = audit_actor(gateway, request.scope, who, opened.id)
    gateway.side(AuditSide).log.record(
        AuditEvent.by(by, "session.sign_in", target="", facts={"role": who.role})
    )
    return opened


def _refused(
    gateway: Gateway, request: _Request, exc: GatewayError, *set_cookies: Cookie
) -> Response[str]:
    """Show why a sign-in failed, with a way to start again."""
    request.scope["state"][DENIED] = exc.message
    where = gateway.runtime.access.clients.of(request.scope)
    _log.warning("sign-in to /admin failed%s: %s", where and f" from {where}", exc.message)
    answer = html(_form(gateway, _sentence(exc.message)), exc.status, set_cookies)
    if exc.retry_after is not None:
        answer.headers["retry-after"] = str(max(1, round(exc.retry_after)))
    return answer


def _sentence(message: str) -> str:
    return message[0].upper() + message[1:] + "."


def _form(gateway: Gateway, problem: str = "", return_to: str = HOME) -> str:
    auth = gateway.runtime.config.auth
    return sign_in_page(
        problem,
        key=bool(auth.admin_key),
        provider="" if auth.admin_oidc is None else auth.admin_oidc.name,
        return_to=return_to,
    )


def _query(request: _Request) -> Mapping[str, str]:
    """Return the query's fields; those that come twice are ambiguous, and left out."""
    query: bytes = request.scope["query_string"]
    return _fields(query.decode("latin-1")) if len(query) <= _QUERY_BYTES else {}


def _fields(text: str) -> Mapping[str, str]:
    found = parse_qs(text, encoding="utf-8", errors="replace", max_num_fields=32)
    return {name: values[0] for name, values in found.items() if len(values) == 1}


def _wanted(fields: Mapping[str, str]) -> str:
    return local_path(fields.get(_RETURN, HOME))


def _check_origin(request: _Request, gateway: Gateway) -> None:
    if not from_here(request.scope["headers"], public_url(gateway)):
        raise Forbidden("cross-site requests to this form are not allowed")


def _no_provider(scope: HTTPScope) -> RouteNotFound:
    return RouteNotFound(f"no route {scope['path']}; auth.admin_oidc is not configured")


def _too_many(wait_s: float) -> Throttled:
    return Throttled(
        f"too many failed sign-ins from this address; retry in {wait_s:.1f} seconds",
        code="too_many_wrong_keys",
        retry_after=wait_s,
    )


def _cookies(opened: Opened, *, secure: bool) -> list[Cookie]:
    return session_cookies(opened.value, secure=secure, lasts_s=opened.lasts_s)


def _over_tls(gateway: Gateway, request: _Request) -> bool:
    return over_tls(request.scope, public_url(gateway))


def _secure(settings: AdminOidc) -> bool:
    """The provider sends browsers back to `public_url` only, so its scheme decides."""
    return settings.public_url.startswith("https:")


def _attempt_name(settings: AdminOidc) -> str:
    """With the prefix, browsers accept it from this host over TLS only, not from a sibling domain.

    https://developer.mozilla.org/docs/Web/HTTP/Reference/Headers/Set-Cookie#cookie_prefixes
    """
    return f"{'__Host-' if _secure(settings) else ''}strowger_sign_in"


def _attempt_cookie(value: str, settings: AdminOidc) -> Cookie:
    """Lax: a browser that comes back from the provider's site would not send a Strict cookie."""
    return Cookie(
        _attempt_name(settings),
        path="/",
        value=value,
        max_age=LASTS_S if value else 0,
        secure=_secure(settings),
        httponly=True,
        samesite="lax",
    )
