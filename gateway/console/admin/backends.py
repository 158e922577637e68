"""`GET /admin/backends`: what each model resolves to, and the current state of its backends."""

from collections.abc import Callable

from litestar import get
from litestar.handlers import HTTPRouteHandler
from msgspec import Struct

from strowger_gateway.gateway.assembly.gateway import Gateway
from strowger_gateway.gateway.assembly.runtime import Runtime
from strowger_gateway.gateway.config.schema.config import MirrorConfig, Model
from strowger_gateway.gateway.config.schema.experiment import Experiment
from strowger_gateway.gateway.console.admin.access import SCHEME
from strowger_gateway.gateway.platform.clock import now
from strowger_gateway.gateway.routing.backend_status import BackendStatus, status_of
from strowger_gateway.gateway.routing.planning.when_rules import describe
from strowger_gateway.gateway.routing.resilience.replica import REPLICA_MARK

NAME_CHARS = 100
"""Characters of a name that a client chose."""


class BackendView(Struct, frozen=True, kw_only=True):
    """One backend of a model: PROVIDER/MODEL.

    weight: its share of the traffic; 0: fallback only; `None`: only a rule or a variant uses it.
    variants: of the model's experiment that it serves.
    health: for this model, as the process that responds sees it.
    replica: HOST:PORT, if the backend has replicas; each of them is listed.
    names_down: of a wildcard, the names that clients have requested and that do not work.
    """

    name: str
    weight: float | None
    variants: tuple[str, ...] = ()
    health: BackendStatus
    replica: str = ""
    names_down: tuple[str, ...] = ()

    @property
    def place(self) -> str:
        """Its name, with the address of its replica."""
        return f"{self.name}{REPLICA_MARK}{self.replica}" if self.replica else self.name


class RuleView(Struct, frozen=True, kw_only=True):
    """A `when` rule: its conditions as text, and the backends for requests that match."""

    when: str
    backends: tuple[str, ...]


class ErrorFallbackView(Struct, frozen=True, kw_only=True):
    """A row of `fallback_by_error`."""

    codes: tuple[str, ...]
    models: tuple[str, ...]


class VariantView(Struct, frozen=True, kw_only=True):
    """One arm of a model's experiment. share: of the units, 0 to 1."""

    name: str
    backend: str
    share: float


class ExperimentView(Struct, frozen=True, kw_only=True):
    """The experiment on a model; its variants' backends are tried first."""

    name: str
    variants: tuple[VariantView, ...]


class ModelView(Struct, frozen=True, kw_only=True):
    """One entry of `models`. Backends from its list come first, in that order."""

    name: str
    aliases: tuple[str, ...]
    policy: str
    backends: list[BackendView]
    when: list[RuleView]
    fallback: tuple[str, ...]
    fallback_by_error: list[ErrorFallbackView]
    experiment: ExperimentView | None = None
    mirror: MirrorConfig | None = None


class ModelList(Struct, frozen=True, kw_only=True):
    models: list[ModelView]


def backends_route(current: Callable[[], Gateway]) -> HTTPRouteHandler:
    @get(
        "/backends",
        summary="What each model resolves to, and the current state of its backends",
        role="viewer",
        security=[{SCHEME: []}],
    )
    async def backends() -> ModelList:
        return listed(current().runtime, now())

    return backends


def listed(runtime: Runtime, at: float) -> ModelList:
    """at: the clock's seconds."""
    config = runtime.config
    trials = {trial.model: experiment_view(trial) for trial in config.experiments}
    return ModelList(
        models=[_model(one, runtime, at, trials.get(one.name)) for one in config.models]
    )


def _model(
    model: Model, runtime: Runtime, at: float, experiment: ExperimentView | None
) -> ModelView:
    route = runtime.table.routes[model.name]
    weights = dict(zip([backend.place for backend in route.backends], route.weights, strict=True))
    known = {backend.place: backend for backend in route.backends}
    known |= {backend.place: backend for rule in route.rules for backend in rule.backends}
    router = runtime.planner.experiments.get(route.name)
    arms = () if router is None else tuple(router.arms.values())
    known |= {arm.backend.name: arm.backend for arm in arms}
    return ModelView(
        name=model.name,
        aliases=model.aliases,
        policy=model.policy,
        backends=[
            BackendView(
                name=backend.name,
                weight=weights.get(place),
                variants=tuple(arm.name for arm in arms if arm.backend is backend),
                health=status_of(backend, at),
                replica="" if backend.replica is None else backend.replica.address,
                names_down=tuple(
                    name[:NAME_CHARS]
                    for name, breaker in backend.breakers
                    if breaker.phase(at) != "up"
                ),
            )
            for place, backend in known.items()
        ],
        when=[
            RuleView(
                when=describe(rule.when),
                backends=tuple(dict.fromkeys(backend.name for backend in rule.backends)),
            )
            for rule in route.rules
        ],
        fallback=model.fallback,
        fallback_by_error=[
            ErrorFallbackView(codes=detour.codes, models=detour.models)
            for detour in model.fallback_by_error
        ],
        experiment=experiment,
        mirror=model.mirror,
    )


def experiment_view(experiment: Experiment) -> ExperimentView:
    whole = sum(variant.weight for variant in experiment.variants)
    return ExperimentView(
        name=experiment.name,
        variants=tuple(
            VariantView(name=one.name, backend=one.backend, share=one.weight / whole)
            for one in experiment.variants
        ),
    )
