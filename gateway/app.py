"""The ASGI application: the hot endpoints before Litestar, everything else as its routes."""

from collections.abc import Sequence

from litestar import Litestar, Request, Response, get
from litestar.config.cors import CORSConfig
from litestar.datastructures import State
from litestar.exceptions import HTTPException
from litestar.openapi import OpenAPIConfig
from litestar.openapi.plugins import ScalarRenderPlugin
from litestar.openapi.spec import Components, SecurityScheme
from litestar.params import FromPath
from litestar.types import ASGIApp, ControllerRouterHandler

from gateway.admin.access import SCHEME
from gateway.admin.routes import admin_routes
from gateway.auth import Caller
from gateway.documentation import documented
from gateway.endpoint import Endpoint
from gateway.front import Front
from gateway.state import Gateway
from gateway.surfaces.openai import (
    CHAT,
    COMPLETIONS,
    EMBEDDINGS,
    error_body,
    model_body,
    models_body,
)
from gateway.surfaces.openai_wire import ChatWire, CompletionWire, EmbeddingsWire
from schemas.errors import GatewayError, MethodNotAllowed, ModelNotFound, RouteNotFound

_Request = Request[object, object, State]
_HOT = (
    ("/v1/chat/completions", CHAT, ChatWire, "Answer a conversation"),
    ("/v1/completions", COMPLETIONS, CompletionWire, "Continue a text"),
    ("/v1/embeddings", EMBEDDINGS, EmbeddingsWire, "Turn inputs into vectors"),
)


def build_app(gateway: Gateway) -> ASGIApp:
    """Everything that the gateway serves. The gateway's parts are read at each request."""

    def current() -> Gateway:
        return gateway

    hot = {path: Endpoint(current, surface) for path, surface, _, _ in _HOT}
    posts = [documented(path, hot[path], body, summary) for path, _, body, summary in _HOT]
    handlers = [*posts, *_operations(gateway), *_models(gateway), admin_routes(current)]
    return Front(hot, _litestar(gateway, handlers))


def _litestar(gateway: Gateway, handlers: Sequence[ControllerRouterHandler]) -> Litestar:
    origins = list(gateway.runtime.config.server.cors.allow_origins)
    return Litestar(
        route_handlers=handlers,
        openapi_config=OpenAPIConfig(
            title="Strowger",
            version="1",
            path="/docs",
            render_plugins=[ScalarRenderPlugin(path="/")],
            components=Components(
                security_schemes={
                    SCHEME: SecurityScheme(
                        type="http",
                        scheme="bearer",
                        description="auth.admin_key; while it is empty, /admin answers 404",
                    )
                }
            ),
        ),
        cors_config=CORSConfig(allow_origins=origins) if origins else None,
        exception_handlers={HTTPException: _framework_error, GatewayError: _gateway_error},
        logging_config=None,
    )


def _operations(gateway: Gateway) -> list[ControllerRouterHandler]:
    @get("/healthz", include_in_schema=True, summary="The process is alive")
    async def healthz() -> dict[str, str]:
        return {"status": "alive"}

    @get("/readyz", summary="Configured, every local engine warm, not draining")
    async def readyz() -> Response[dict[str, str | dict[str, str]]]:
        engines = {name: engine.status for name, engine in gateway.runtime.engines.items()}
        if gateway.draining:
            return Response({"status": "draining"}, status_code=503)
        if not gateway.runtime.ready:
            return Response({"status": "loading", "engines": engines}, status_code=503)
        return Response({"status": "ready", "engines": engines})

    @get("/metrics", media_type="text/plain; version=0.0.4", summary="Prometheus metrics")
    async def metrics(request: _Request) -> bytes:
        headers = request.scope["headers"]
        if not gateway.runtime.admin_key.opens(headers):
            gateway.runtime.keyring.caller(headers)
        return await gateway.metrics_text()

    @get("/openapi.json", media_type="application/json", include_in_schema=False)
    async def openapi(request: _Request) -> dict[str, object]:
        return request.app.openapi_schema.to_schema()

    return [healthz, readyz, metrics, openapi]


def _models(gateway: Gateway) -> list[ControllerRouterHandler]:
    def caller(request: _Request) -> Caller:
        return gateway.runtime.keyring.caller(request.scope["headers"])

    @get("/v1/models", media_type="application/json", summary="The models that this key may use")
    async def models(request: _Request) -> bytes:
        return models_body(gateway.model_names(caller(request)), gateway.started_at)

    @get("/v1/models/{model:path}", media_type="application/json", summary="One model")
    async def model(request: _Request, model: FromPath[str]) -> bytes:
        name = model.removeprefix("/")
        if name not in gateway.model_names(caller(request)):
            raise ModelNotFound(f"model: there is no model {name!r} here", param="model")
        return model_body(name, gateway.started_at)

    return [models, model]


def _framework_error(request: _Request, exc: HTTPException) -> Response[bytes]:
    """Litestar's own errors in the envelope that clients know."""
    path, method = request.scope["path"], request.method
    match exc.status_code:
        case 404:
            error: GatewayError = RouteNotFound(f"there is nothing at {method} {path}")
        case 405:
            allow = next((r.methods for r in request.app.routes if r.path == path), {"GET"})
            error = MethodNotAllowed(
                f"{path} does not take {method}", allow=tuple(sorted({*allow, "OPTIONS"}))
            )
        case status:
            error = GatewayError(exc.detail)
            error.status = status
    return _gateway_error(request, error)


def _gateway_error(request: _Request, exc: GatewayError) -> Response[bytes]:
    headers: dict[str, str] = {}
    if isinstance(exc, MethodNotAllowed) and any(exc.allow):
        headers["allow"] = ", ".join(exc.allow)
    if exc.status == 401:
        headers["www-authenticate"] = "Bearer"
    return Response(
        error_body(exc),
        status_code=exc.status,
        headers=headers,
        media_type="application/json",
    )
