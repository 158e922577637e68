"""Build the routes, backends and experiments of a configuration."""

from collections.abc import Iterable, Mapping, Sequence
from functools import partial

from msgspec import Struct

from strowger_gateway.gateway.assembly.wiring.backends import BackendBuilder
from strowger_gateway.gateway.assembly.wiring.upstreams import Upstreams
from strowger_gateway.gateway.backends.discovery.discovered import NOTHING_DISCOVERED, Discovered
from strowger_gateway.gateway.backends.discovery.source import HostPort
from strowger_gateway.gateway.config.error_codes import plain
from strowger_gateway.gateway.config.schema.config import Config, Model, WhenRule
from strowger_gateway.gateway.config.schema.connection import STREAM_S, WHOLE_S
from strowger_gateway.gateway.config.schema.discovery import DiscoverReplicas
from strowger_gateway.gateway.routing.planning.enrolment import ExperimentRouter, ExperimentState
from strowger_gateway.gateway.routing.planning.model_facts import KnownModels
from strowger_gateway.gateway.routing.planning.policies import POLICIES
from strowger_gateway.gateway.routing.planning.prices import Prices
from strowger_gateway.gateway.routing.planning.route import (
    NO_VALUES,
    Backend,
    ErrorFallback,
    Hedging,
    Mirror,
    Route,
    RouteTable,
    Rule,
)
from strowger_gateway.gateway.routing.resilience.recent_activity import Load
from strowger_gateway.gateway.routing.resilience.replica import Replica
from strowger_gateway.gateway.routing.resilience.retry import RetryBudget

HEDGES_FLOOR, HEDGES_SHARE = 10, 0.1
"""Per model and 10 seconds: this many requests are hedged, or this share if that is more."""


class Routes(Struct, frozen=True, kw_only=True, eq=False):
    """The routes of one generation.

    backends: by `MODEL: PROVIDER/MODEL`, with ` (mirror)` behind it for a mirror's own, and with
    ` @ HOST:PORT` for a replica.
    replicas: by provider and address. loads: of their backends, one for each model.
    experiments: by the name of their route.
    """

    table: RouteTable
    backends: Mapping[str, Backend]
    experiments: Mapping[str, ExperimentRouter]
    replicas: Mapping[tuple[str, HostPort], Replica] = {}
    loads: Mapping[Replica, Sequence[Load]] = {}

    def busy_at(self, replica: Replica) -> int:
        """Attempts of this gateway that are in flight there, of all models."""
        return sum([load.busy for load in self.loads.get(replica, ())])


def build_routes(
    config: Config,
    upstreams: Upstreams,
    prices: Prices,
    known: KnownModels,
    state: ExperimentState,
    before: Routes | None,
    discovered: Discovered = NOTHING_DISCOVERED,
) -> Routes:
    """Build the routes of a configuration.

    before: the previous generation's. The breaker, load and hedging budget of a backend whose
    upstream has not changed are taken over.
    """
    backends = BackendBuilder(config, upstreams, prices, known, before, discovered)
    builder = _Builder(backends, before)
    routes = [builder.route(model) for model in config.models]
    models = {model.name: model for model in config.models}
    experiments = {
        one.model: ExperimentRouter(one, partial(backends.backend, models[one.model]), state)
        for one in config.experiments
        if one.model in models
    }
    aliases = {alias: model.name for model in config.models for alias in model.aliases}
    return Routes(
        table=RouteTable(
            routes, aliases, pooled=any(one.pool is not None for one in config.providers)
        ),
        backends=backends.backends,
        experiments=experiments,
        replicas=backends.replicas,
        loads=_loads(backends.backends.values()),
    )


def _loads(backends: Iterable[Backend]) -> dict[Replica, list[Load]]:
    found: dict[Replica, list[Load]] = {}
    for backend in backends:
        if backend.replica is not None:
            found.setdefault(backend.replica, []).append(backend.load)
    return found


class _Builder:
    """Builds routes over the backends of a generation."""

    def __init__(self, backends: BackendBuilder, before: Routes | None) -> None:
        self._backends = backends
        self._before = before

    def route(self, model: Model) -> Route:
        """The model's route. Backends without a weight count 1, so none at all splits evenly."""
        weights = {
            f"{ref.provider}/{ref.model}": 1.0 if ref.weight is None else ref.weight
            for ref in model.backends
        }
        places = {f"{ref.provider}/{ref.model}": ref.discover for ref in model.backends}
        backends, parts = self._spread(model, weights, places)
        return Route(
            name=model.name,
            backends=backends,
            weights=parts,
            replicated=any(one.replica is not None for one in backends),
            policy=POLICIES[model.policy],
            sticky_by=model.sticky_by,
            rules=tuple(self._rule(model, when, weights, places) for when in model.when),
            require=model.require,
            error_fallbacks=tuple(
                ErrorFallback(codes=frozenset(map(plain, row.codes)), routes=row.models)
                for row in model.fallback_by_error
            ),
            retry=model.retry,
            deadline_s=WHOLE_S if model.deadline_s is None else model.deadline_s,
            stream_deadline_s=STREAM_S if model.deadline_s is None else model.deadline_s,
            fallback=model.fallback,
            on_unsupported=model.on_unsupported,
            on_repair=model.on_repair,
            hedging=self._hedging(model),
            stream_recovery=model.stream_recovery,
            mirror=None
            if model.mirror is None
            else Mirror(
                backend=self._backends.backend(model, model.mirror.backend, " (mirror)"),
                share=model.mirror.share,
            ),
            defaults=NO_VALUES if model.defaults == NO_VALUES else model.defaults,
            overrides=NO_VALUES if model.overrides == NO_VALUES else model.overrides,
        )

    def _spread(
        self,
        model: Model,
        weights: Mapping[str, float],
        places: Mapping[str, DiscoverReplicas | None],
    ) -> tuple[tuple[Backend, ...], tuple[float, ...]]:
        """The backends with their weights; the replicas of one share its weight."""
        found: list[Backend] = []
        parts: list[float] = []
        for name, weight in weights.items():
            replicas = self._backends.all(model, name, places.get(name))
            found += replicas
            parts += [weight / len(replicas)] * len(replicas)
        return tuple(found), tuple(parts)

    def _rule(
        self,
        model: Model,
        when: WhenRule,
        weights: Mapping[str, float],
        places: Mapping[str, DiscoverReplicas | None],
    ) -> Rule:
        own = dict(zip(when.backends, _rule_weights(when, weights), strict=True))
        backends, parts = self._spread(model, own, places)
        return Rule(when=when, backends=backends, weights=parts)

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
