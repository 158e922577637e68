"""The ASGI application: the hot endpoints before Litestar, everything else as its routes."""

import logging
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from math import ceil
from typing import cast

import msgspec
from litestar import Litestar, Request, Response, Router
from litestar.config.cors import CORSConfig
from litestar.connection import ASGIConnection
from litestar.datastructures import State
from litestar.exceptions import HTTPException
from litestar.handlers import BaseRouteHandler
from litestar.openapi import OpenAPIConfig
from litestar.openapi.plugins import JsonRenderPlugin
from litestar.openapi.spec import Components, SecurityScheme
from litestar.plugins import PluginProtocol
from litestar.plugins.core import MsgspecDIPlugin
from litestar.types import ASGIApp, ControllerRouterHandler, Scope

from strowger_gateway.gateway.assembly.gateway import Gateway
from strowger_gateway.gateway.console.admin.access import DENIED, REQUEST_ID, SCHEME
from strowger_gateway.gateway.console.admin.routes import admin_routes
from strowger_gateway.gateway.governance.access.auth import WrongKey, too_many_wrong_keys
from strowger_gateway.gateway.governance.access.process_side import WrongKeysSide
from strowger_gateway.gateway.http.dispatcher import Dispatcher
from strowger_gateway.gateway.http.endpoint import Endpoint
from strowger_gateway.gateway.http.listed_endpoint import endpoint
from strowger_gateway.gateway.http.litestar_log import (
    FAILED,
    FailedRequest,
    LitestarLog,
)
from strowger_gateway.gateway.http.no_events import NoEvents
from strowger_gateway.gateway.http.resources.api_description import description
from strowger_gateway.gateway.http.resources.databricks_endpoints import databricks_endpoints
from strowger_gateway.gateway.http.resources.feedback import feedback
from strowger_gateway.gateway.http.resources.gemini_models import gemini_models
from strowger_gateway.gateway.http.resources.kserve_models import kserve_models
from strowger_gateway.gateway.http.resources.ollama_models import ollama_models
from strowger_gateway.gateway.http.resources.openai_models import openai_models
from strowger_gateway.gateway.http.resources.operations import operations
from strowger_gateway.gateway.http.resources.stored_responses import stored_responses
from strowger_gateway.gateway.http.unserved_apis import MESSAGES, instead_of, shortened, with_v1
from strowger_gateway.gateway.server.asgi.head_requests import HeadRequests
from strowger_gateway.gateway.surfaces.error_envelopes import envelope
from strowger_gateway.gateway.surfaces.hot_route import TemplatedPaths
from strowger_gateway.gateway.surfaces.openapi.hot_routes import documented
from strowger_gateway.gateway.surfaces.routes import HOT_ROUTES
from strowger_gateway.schemas.errors import (
    BodyTooLarge,
    GatewayError,
    InvalidRequest,
    MethodNotAllowed,
    RequestTimeout,
    RouteNotFound,
)

_SLOWED = "strowger.slowed"
_Request = Request[object, object, State]
_Connection = ASGIConnection[BaseRouteHandler, object, object, State]
_log = logging.getLogger("strowger")


class _Application(Litestar):
    """Litestar without plugins for what our routes never use.

    By itself it loads pydantic and attrs wherever they are installed: 9 MB in each process.
    """

    @staticmethod
    def _get_default_plugins(plugins: list[PluginProtocol]) -> list[PluginProtocol]:
        return [*plugins, MsgspecDIPlugin()]


def build_app(gateway: Gateway, *, at_once: bool = True) -> Dispatcher:
    """Build the application. The gateway's parts are read at each request.

    at_once: False builds the Litestar part with its first request, which takes 0.1 s: for tests
    that start many gateways and rarely use that part.
    """

    def current() -> Gateway:
        return gateway

    hot = {route.path: endpoint(gateway, route) for route in HOT_ROUTES}

    def rest() -> ASGIApp:
        handlers = [*_handlers(gateway, hot), admin_routes(current)]
        return LitestarLog(HeadRequests(_litestar(gateway, handlers)), current)

    front = Dispatcher(gateway, hot, TemplatedPaths(HOT_ROUTES), rest)
    if at_once:
        front.complete()
    return front


def _handlers(gateway: Gateway, hot: Mapping[str, Endpoint]) -> Iterable[ControllerRouterHandler]:
    yield from (documented(route, hot[route.path]) for route in HOT_ROUTES)
    yield from operations(gateway)
    yield from description(gateway)
    yield from openai_models(gateway)
    yield from gemini_models(gateway)
    yield from databricks_endpoints(gateway)
    yield from kserve_models(gateway)
    yield from ollama_models(gateway)
    yield from stored_responses(gateway)
    yield from feedback(gateway)


def _litestar(gateway: Gateway, handlers: Sequence[ControllerRouterHandler]) -> Litestar:
    origins = list(gateway.runtime.config.server.cors.allow_origins)
    return _Application(
        route_handlers=handlers,
        openapi_config=OpenAPIConfig(
            title="Strowger",
            version="1",
            openapi_router=_unserved(),
            render_plugins=[JsonRenderPlugin()],
            components=Components(
                security_schemes={
                    SCHEME: SecurityScheme(
                        type="http",
                        scheme="bearer",
                        description="auth.admin_key, for programs",
                    )
                }
            ),
        ),
        cors_config=CORSConfig(allow_origins=origins) if origins else None,
        after_exception=[partial(_slow, gateway)],
        exception_handlers={
            HTTPException: _framework_error,
            GatewayError: _gateway_error,
            Exception: partial(_bug, gateway),
        },
        logging_config=None,
        event_emitter_backend=NoEvents,
    )


def _unserved() -> Router:
    """Replace the pages on the API that Litestar would serve; no request reaches them."""
    return Router("/openapi", route_handlers=[], guards=[_not_served], include_in_schema=False)


def _not_served(connection: _Connection, handler: BaseRouteHandler) -> None:
    """Litestar's own pages load scripts of other hosts; ours are in `api_description.py`."""
    raise RouteNotFound(f"no route {connection.scope['path']}")


def _bug(gateway: Gateway, request: _Request, exc: Exception) -> Response[bytes]:
    """The last resort: log the error once with its request id, and count it by route."""
    scope = request.scope
    request_id = str(scope["state"].get(REQUEST_ID, ""))
    route = str(cast("Mapping[str, object]", scope).get("path_template", "unknown route"))
    told = "request %s at %s %s failed: bug in the gateway"
    _log.error(told, request_id, request.method, route, exc_info=exc)
    gateway.log.metrics.internal_errors.count(route)
    answer = _gateway_error(
        request, GatewayError("internal error; the gateway's log has the request id")
    )
    answer.headers["x-gateway-request-id"] = request_id
    return answer


async def _slow(gateway: Gateway, exc: Exception, scope: Scope) -> None:
    """Delay the answer to a wrong key; see `gateway/governance/access/wrong_keys.py`."""
    if isinstance(exc, WrongKey) and scope["type"] == "http":
        scope["state"][_SLOWED] = await gateway.side(WrongKeysSide).throttle.delay_answer(
            scope, gateway.runtime.access.clients.of(scope)
        )


class _Fault(msgspec.Struct):
    """Litestar's report about a parameter that it cannot parse."""

    message: str
    key: str = ""


def _framework_error(request: _Request, exc: HTTPException) -> Response[bytes]:
    """Return Litestar's own errors in the path's error format."""
    path, method = request.scope["path"], request.method
    match exc.status_code:
        case 404:
            told = f"no route {method} {shortened(path)}"
            error: GatewayError = RouteNotFound(told + _elsewhere(request.app, path))
        case 405 if hint := instead_of(path):
            error = RouteNotFound(f"no route {method} {shortened(path)}{hint}")
        case 405:
            allow = next((r.methods for r in request.app.routes if r.path == path), {"GET"})
            error = MethodNotAllowed(
                f"{shortened(path)} does not accept {method}",
                allow=tuple(sorted({*allow, *(("HEAD",) if "GET" in allow else ()), "OPTIONS"})),
            )
        case 400 if isinstance(exc.extra, list) and exc.extra:
            fault, *_ = msgspec.convert(exc.extra, list[_Fault])
            told = f"{fault.key}: {fault.message}; see GET /openapi.json for what is accepted"
            error = InvalidRequest(told, param=fault.key or None)
        case 413:
            most = request.route_handler.resolve_request_max_body_size()
            error = BodyTooLarge(f"the body is larger than the maximum of {most} bytes")
        case status:
            error = GatewayError(exc.detail)
            error.status = status
            if status >= 500:
                _log.error("%s %s answered with %d", request.method, path, status, exc_info=exc)
    return _gateway_error(request, error)


def _elsewhere(app: Litestar, path: str) -> str:
    """Return the end of a sentence about a path: what to use instead, if known.

    If adding or removing a /v1 makes it a known path, the base URL is most likely wrong.
    """
    whole = with_v1(path)
    if whole != path and any(route.path == whole for route in app.routes):
        end = "to the address without /v1" if whole.startswith(MESSAGES) else "to end in /v1"
        return f"; did you mean {whole}? Set the client's base_url {end}"
    return instead_of(path)


def _gateway_error(request: _Request, exc: GatewayError) -> Response[bytes]:
    headers: dict[str, str] = {}
    if slowed := cast(float, request.scope["state"].get(_SLOWED, 0.0)):
        exc = too_many_wrong_keys(slowed)
    if exc.retry_after is not None:
        headers["retry-after"] = str(ceil(exc.retry_after))
    if isinstance(exc, MethodNotAllowed) and any(exc.allow):
        headers["allow"] = ", ".join(exc.allow)
    if isinstance(exc, RequestTimeout):
        headers["connection"] = "close"
    if exc.status == 401:
        headers["www-authenticate"] = "Bearer"
    exc.request_id = str(request.scope["state"].get(REQUEST_ID, ""))
    if exc.status in (401, 403):
        request.scope["state"][DENIED] = exc.message
    request.scope["state"][FAILED] = FailedRequest(exc.code, exc.param or "", exc.message)
    return Response(
        envelope(request.scope["path"], request.scope["headers"])(exc),
        status_code=exc.status,
        headers=headers,
        media_type="application/json",
    )
