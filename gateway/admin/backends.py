"""`GET /admin/backends`: what each model resolves to, and how its backends are right now."""

from collections.abc import Callable

from litestar import get
from litestar.handlers import HTTPRouteHandler
from msgspec import Struct

from gateway.admin.access import SCHEME
from gateway.clock import now
from gateway.config.model import Model
from gateway.routing.health import Health, health_of
from gateway.routing.rules import in_words
from gateway.runtime import Runtime
from gateway.state import Gateway


class BackendView(Struct, frozen=True, kw_only=True):
    """One backend of a model: PROVIDER/MODEL.

    weight: its part of the traffic; 0: none of its own; `None`: it is named by a rule alone.
    health: of this model's requests there, as the process that answers sees it.
    """

    name: str
    weight: float | None
    health: Health


class RuleView(Struct, frozen=True, kw_only=True):
    """A `when` rule: its conditions in words, and who answers where they hold."""

    when: str
    backends: tuple[str, ...]


class DetourView(Struct, frozen=True, kw_only=True):
    """A row of `fallback_by_error`."""

    codes: tuple[str, ...]
    models: tuple[str, ...]


class ModelView(Struct, frozen=True, kw_only=True):
    """One entry of `models`. Backends of its list come first, as listed."""

    name: str
    aliases: tuple[str, ...]
    policy: str
    backends: list[BackendView]
    when: list[RuleView]
    fallback: tuple[str, ...]
    fallback_by_error: list[DetourView]


class ModelList(Struct, frozen=True, kw_only=True):
    models: list[ModelView]


def backends_route(current: Callable[[], Gateway]) -> HTTPRouteHandler:
    @get(
        "/backends",
        summary="What each model resolves to, and how its backends are right now",
        security=[{SCHEME: []}],
    )
    async def backends() -> ModelList:
        return listed(current().runtime, now())

    return backends


def listed(runtime: Runtime, at: float) -> ModelList:
    """at: the clock's seconds."""
    return ModelList(models=[_model(model, runtime, at) for model in runtime.config.models])


def _model(model: Model, runtime: Runtime, at: float) -> ModelView:
    route = runtime.table.routes[model.name]
    weights = dict(zip([backend.name for backend in route.backends], route.weights, strict=True))
    known = {backend.name: backend for backend in route.backends}
    known |= {backend.name: backend for rule in route.rules for backend in rule.backends}
    return ModelView(
        name=model.name,
        aliases=model.aliases,
        policy=model.policy,
        backends=[
            BackendView(name=name, weight=weights.get(name), health=health_of(backend, at))
            for name, backend in known.items()
        ],
        when=[
            RuleView(
                when=in_words(rule.when), backends=tuple(backend.name for backend in rule.backends)
            )
            for rule in route.rules
        ],
        fallback=model.fallback,
        fallback_by_error=[
            DetourView(codes=detour.codes, models=detour.models)
            for detour in model.fallback_by_error
        ],
    )
