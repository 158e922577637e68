"""List the models as Databricks' clients expect: serving endpoints and their served entities."""

from collections.abc import Iterator
from typing import Final

from litestar import Request, get
from litestar.datastructures import State
from litestar.params import FromPath
from litestar.types import ControllerRouterHandler

from strowger_gateway.adapters.capabilities import offered
from strowger_gateway.gateway.assembly.gateway import Gateway
from strowger_gateway.gateway.assembly.runtime import Runtime
from strowger_gateway.gateway.backends.engines.process.process import EngineView
from strowger_gateway.gateway.backends.engines.process.process import State as EngineState
from strowger_gateway.gateway.config.adapter_names import WITHOUT_WIRE
from strowger_gateway.gateway.config.schema.config import Provider
from strowger_gateway.gateway.governance.access.auth import Caller
from strowger_gateway.gateway.platform.clock import now
from strowger_gateway.gateway.routing.planning.route import Backend, Route
from strowger_gateway.gateway.routing.resilience.circuit_breaker import Breaker
from strowger_gateway.gateway.surfaces.databricks.serving_endpoints import (
    TASKS,
    Deployment,
    ServedEntity,
    ServingEndpoint,
    endpoint_body,
    endpoints_body,
    serving_endpoint,
)
from strowger_gateway.schemas.errors import ModelNotFound
from strowger_gateway.schemas.fields import Task

_Request = Request[object, object, State]

_DEPLOYMENTS: Final[dict[EngineState, Deployment]] = {
    "ready": "DEPLOYMENT_READY",
    "loading": "DEPLOYMENT_CREATING",
    "restarting": "DEPLOYMENT_RECOVERING",
    "failed": "DEPLOYMENT_FAILED",
    "stopped": "DEPLOYMENT_ABORTED",
}


def databricks_endpoints(gateway: Gateway) -> list[ControllerRouterHandler]:
    async def caller(request: _Request) -> Caller:
        return await gateway.runtime.access.keyring.caller(request.scope)

    def view(name: str, route: Route) -> ServingEndpoint:
        served = served_entities(gateway.runtime, route, name)
        return serving_endpoint(name, served, created=gateway.processes.status.started_at)

    @get(
        "/api/2.0/serving-endpoints",
        media_type="application/json",
        summary="The models that this key may use, as Databricks lists them",
    )
    async def endpoints(request: _Request) -> bytes:
        table = gateway.runtime.table
        names = table.names((await caller(request)).may_use)
        return endpoints_body([view(name, table.find(name)) for name in names])

    @get(
        "/api/2.0/serving-endpoints/{name:path}",
        media_type="application/json",
        summary="One model, as Databricks shows it",
    )
    async def endpoint(request: _Request, name: FromPath[str]) -> bytes:
        requested, who = name.removeprefix("/"), await caller(request)
        route = gateway.runtime.table.find(requested, who.may_use)
        if requested.endswith("*"):
            raise ModelNotFound(f"name: serving endpoint {requested!r} not found", param="name")
        return endpoint_body(view(requested, route))

    return [endpoints, endpoint]


def served_entities(runtime: Runtime, route: Route, requested: str) -> list[ServedEntity]:
    """Return the route's backends, and those of its fallbacks with no traffic share.

    requested: the name that the client uses; a wildcard passes it on to the backend.
    """
    providers = {provider.name: provider for provider in runtime.config.providers}
    found: dict[str, ServedEntity] = {}
    for backend, weight in _shares(runtime, route):
        name, model = backend.name, backend.model
        if model == "*":
            name, model = name[:-1] + requested, requested
        if name in found:
            continue
        provider = providers[backend.name.partition("/")[0]]
        deployment, message = _state(
            backend.breaker_for(requested), runtime.engines.get(provider.name)
        )
        found[name] = ServedEntity(
            name=name,
            model=model,
            adapter="" if provider.adapter in WITHOUT_WIRE else provider.adapter,
            weight=weight,
            tasks=_tasks(backend, provider),
            deployment=deployment,
            message=message,
        )
    return list(found.values())


def _shares(runtime: Runtime, route: Route) -> Iterator[tuple[Backend, float]]:
    """Yield backends and weights; with the policy `in_order`, the first backend has all traffic."""
    weights = route.weights
    if route.policy.name == "in_order":
        weights = (1.0, *(0.0 for _ in weights[1:]))
    yield from zip(route.backends, weights, strict=True)
    for name in route.fallback:
        yield from ((backend, 0.0) for backend in runtime.table.routes[name].backends)


def _state(breaker: Breaker, engine: EngineView | None) -> tuple[Deployment, str]:
    if engine is not None and engine.state != "ready":
        return _DEPLOYMENTS[engine.state], engine.status
    at = now()
    if breaker.is_available(at):
        return "DEPLOYMENT_READY", ""
    if breaker.hold is not None:
        return "DEPLOYMENT_RECOVERING", breaker.hold.words
    if breaker.refused_for(at):
        return "DEPLOYMENT_RECOVERING", "refused by the provider: account, key or model"
    if breaker.cooling_down(at):
        return "DEPLOYMENT_RECOVERING", "rate-limited by the provider"
    return "DEPLOYMENT_RECOVERING", f"breaker {breaker.state(at)}"


def _tasks(backend: Backend, provider: Provider) -> tuple[Task, ...]:
    """Return the tasks it offers: those of a provider's dialect, or of a local model's kind."""
    if provider.engine is not None:
        embeds = {model.name for model in provider.engine.models if model.task == "embed"}
        return ("embeddings",) if backend.model in embeds else ("chat", "completion")
    return tuple(task for task in TASKS if offered(backend.supports, task) is not None)
