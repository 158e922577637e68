"""Build the routes, backends and experiments of a configuration."""

from collections.abc import Mapping
from functools import partial

from msgspec import Struct

from adapters.capabilities import of_model
from gateway.config.error_codes import plain
from gateway.config.schema.config import Config, Model, WhenRule
from gateway.routing.planning.enrolment import ExperimentRouter, ExperimentState
from gateway.routing.planning.model_facts import KnownModels
from gateway.routing.planning.policies import POLICIES
from gateway.routing.planning.prices import Prices
from gateway.routing.planning.route import (
    NO_VALUES,
    Backend,
    ErrorFallback,
    Hedging,
    Mirror,
    Route,
    RouteTable,
    Rule,
)
from gateway.routing.resilience.breaker_per_model import Breakers
from gateway.routing.resilience.circuit_breaker import Breaker
from gateway.routing.resilience.recent_activity import Load
from gateway.routing.resilience.retry import RetryBudget
from gateway.upstream.base import whole_chat_of
from gateway.wiring.upstreams import Upstreams

HEDGES_FLOOR, HEDGES_SHARE = 10, 0.1
"""Per model and 10 seconds: this many requests are hedged, or this share if that is more."""


class Routes(Struct, frozen=True, kw_only=True, eq=False):
    """The routes of one generation.

    backends: by `MODEL: PROVIDER/MODEL`, with ` (mirror)` behind it for a mirror's own.
    experiments: by the name of their route.
    """

    table: RouteTable
    backends: Mapping[str, Backend]
    experiments: Mapping[str, ExperimentRouter]


def build_routes(
    config: Config,
    upstreams: Upstreams,
    prices: Prices,
    known: KnownModels,
    state: ExperimentState,
    before: Routes | None,
) -> Routes:
    """Build the routes of a configuration.

    before: the previous generation's. The breaker, load and hedging budget of a backend whose
    upstream has not changed are taken over.
    """
    builder = _Builder(upstreams, prices, known, before)
    routes = [builder.route(model) for model in config.models]
    models = {model.name: model for model in config.models}
    experiments = {
        one.model: ExperimentRouter(one, partial(builder.backend, models[one.model]), state)
        for one in config.experiments
        if one.model in models
    }
    aliases = {alias: model.name for model in config.models for alias in model.aliases}
    return Routes(
        table=RouteTable(routes, aliases), backends=builder.backends, experiments=experiments
    )


class _Builder:
    """Builds each backend of a model once, because its health belongs to all its uses."""

    def __init__(
        self, upstreams: Upstreams, prices: Prices, known: KnownModels, before: Routes | None
    ) -> None:
        self._upstreams = upstreams
        self._prices = prices
        self._known = known
        self._before = before
        self.backends: dict[str, Backend] = {}

    def backend(self, model: Model, name: str, use: str = "") -> Backend:
        """The model's backend. use: for one that shares its health with no other use."""
        key = f"{model.name}: {name}{use}"
        if key in self.backends:
            return self.backends[key]
        provider, _, upstream_model = name.partition("/")
        upstream = self._upstreams.by_provider[provider]
        old = self._before.backends.get(key) if self._before else None
        known = old if old is not None and old.upstream is upstream else None
        same_rule = known is not None and known.breaker.rule == model.breaker
        self.backends[key] = Backend(
            name=name,
            model=upstream_model,
            upstream=upstream,
            supports=of_model(upstream.supports, upstream_model),
            breaker=known.breaker if known and same_rule else Breaker(model.breaker),
            breakers=known.breakers if known and same_rule else Breakers(model.breaker),
            budget=self._upstreams.budgets[provider],
            load=known.load if known else Load(),
            prices=self._prices,
            whole_chat=whole_chat_of(upstream),
            models=self._known,
        )
        return self.backends[key]

    def route(self, model: Model) -> Route:
        """The model's route. Backends without a weight count 1, so none at all splits evenly."""
        weights = {
            f"{ref.provider}/{ref.model}": 1.0 if ref.weight is None else ref.weight
            for ref in model.backends
        }
        return Route(
            name=model.name,
            backends=tuple(self.backend(model, name) for name in weights),
            weights=tuple(weights.values()),
            policy=POLICIES[model.policy],
            sticky_by=model.sticky_by,
            rules=tuple(
                Rule(
                    when=when,
                    backends=tuple(self.backend(model, name) for name in when.backends),
                    weights=_rule_weights(when, weights),
                )
                for when in model.when
            ),
            require=model.require,
            error_fallbacks=tuple(
                ErrorFallback(codes=frozenset(map(plain, row.codes)), routes=row.models)
                for row in model.fallback_by_error
            ),
            retry=model.retry,
            deadline_s=model.deadline_s,
            fallback=model.fallback,
            on_unsupported=model.on_unsupported,
            hedging=self._hedging(model),
            stream_recovery=model.stream_recovery,
            mirror=None
            if model.mirror is None
            else Mirror(
                backend=self.backend(model, model.mirror.backend, " (mirror)"),
                share=model.mirror.share,
            ),
            defaults=NO_VALUES if model.defaults == NO_VALUES else model.defaults,
            overrides=NO_VALUES if model.overrides == NO_VALUES else model.overrides,
        )

    def _hedging(self, model: Model) -> Hedging | None:
        """The budget is taken over if the model was hedged before."""
        if model.hedge_after_s is None:
            return None
        old = self._before.table.routes.get(model.name) if self._before else None
        known = old.hedging if old else None
        budget = known.budget if known else RetryBudget(floor=HEDGES_FLOOR, share=HEDGES_SHARE)
        return Hedging(after_s=model.hedge_after_s, budget=budget)


def _rule_weights(when: WhenRule, weights: Mapping[str, float]) -> tuple[float, ...]:
    """The model's weights if it gives each of the rule's backends one; otherwise an even split."""
    own = tuple(weights.get(name, 0.0) for name in when.backends)
    return own if all(own) else tuple(1.0 for _ in own)
