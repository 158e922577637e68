"""Health, readiness and metrics."""

import os

from litestar import Request, Response, get
from litestar.datastructures import State
from litestar.types import ControllerRouterHandler, HTTPScope

from strowger_gateway.gateway.assembly.gateway import Gateway
from strowger_gateway.gateway.governance.access.process_side import WrongKeysSide
from strowger_gateway.gateway.surfaces.ollama.models import RUNNING

_Request = Request[object, object, State]
UNRECORDED = (
    "rejecting requests: usage cannot be recorded on disk or in memory (store.usage: required)"
)
REFUSED = "the changed configuration file was rejected (see the log); the previous one is in force"


def operations(gateway: Gateway) -> list[ControllerRouterHandler]:
    # Claude Code sends HEAD / when it starts. Ollama's clients look for its sentence.
    @get("/", include_in_schema=False)
    async def root(request: _Request) -> Response[str] | Response[dict[str, str]]:
        if _is_ollamas(request):
            return Response(RUNNING, media_type="text/plain")
        return Response({"status": "alive", "models": "/v1/models", "api": "/openapi.json"})

    @get("/healthz", summary="The process is alive")
    async def healthz(request: _Request) -> dict[str, str | int]:
        if not _by_operator(gateway, request.scope):
            return {"status": "alive"}
        return {"status": "alive", "worker": gateway.processes.status.worker, "pid": os.getpid()}

    # Clients of inference servers look at /health: 200 where the server can answer and 503 where it
    # cannot, which is readiness.
    # https://github.com/vllm-project/vllm/blob/main/vllm/entrypoints/serve/instrumentator/health.py
    @get(
        ["/readyz", "/health"],
        summary="Configured, every local engine warm, requests recorded, not draining",
    )
    async def readyz() -> Response[dict[str, str | dict[str, str]]]:
        engines = {name: engine.status for name, engine in gateway.runtime.engines.items()}
        if gateway.admission.draining:
            return Response({"status": "draining"}, status_code=503)
        body: dict[str, str | dict[str, str]] = {
            "status": "ready",
            "engines": engines,
            "config_hash": gateway.runtime.config.digest,
        }
        if gateway.processes.status.config_rejected:
            body["configuration"] = REFUSED
        if problems := gateway.runtime.routing.discovered.problems:
            body["discovery"] = problems
        if gateway.processes.status.import_problem:
            body["records"] = (
                f"{gateway.processes.status.import_problem}; records wait in the spool"
            )
        if gateway.admission.recording_blocked(gateway.runtime):
            return Response({**body, "status": UNRECORDED}, status_code=503)
        if gateway.runtime.ready:
            return Response(body)
        return Response({**body, "status": "loading"}, status_code=503)

    @get("/metrics", media_type="text/plain; version=0.0.4", summary="Prometheus metrics")
    async def metrics(request: _Request) -> Response[bytes]:
        await gateway.runtime.access.metrics_access.check(request.scope)
        accept = request.headers.get("accept", "")
        text, content_type = await gateway.processes.metrics_text(accept)
        return Response(text, media_type=content_type)

    return [root, healthz, readyz, metrics]


def _is_ollamas(request: _Request) -> bool:
    """Whether one of Ollama's own clients asks, or one that wants text and nothing else."""
    agent = request.headers.get("user-agent", "").lower()
    return agent.startswith("ollama") or request.headers.get("accept") == "text/plain"


def _by_operator(gateway: Gateway, scope: HTTPScope) -> bool:
    """Return whether the operator's key came with the request, or the gateway has no keys at all.

    Never delayed and never refused: it is a probe. So that the key cannot be guessed here, an
    address with many wrong keys is not answered as the operator.
    """
    runtime, throttle = gateway.runtime, gateway.side(WrongKeysSide).throttle
    if runtime.config.auth.mode == "none":
        return True
    if not any(name == b"authorization" for name, _ in scope["headers"]):
        return False
    client = runtime.access.clients.of(scope)
    if runtime.access.admin_key.opens(scope["headers"]):
        return not throttle.wait_s(scope, client)
    if runtime.access.keyring.known(scope) is None:
        throttle.note_failure(scope, client)
    return False
