"""Build the routes, backends and experiments of a configuration."""

from collections.abc import Iterable, Mapping, Sequence
from functools import partial

from msgspec import Struct
from msgspec.structs import replace

from strowger_gateway.adapters.base import Supports
from strowger_gateway.adapters.capabilities import of_model
from strowger_gateway.adapters.client_fields.patterns import allowed
from strowger_gateway.adapters.form_repairs.prompt_cache import MARKS, prompt_cache
from strowger_gateway.adapters.repairs.rule import Repair
from strowger_gateway.adapters.universal_repairs import with_universal
from strowger_gateway.gateway.assembly.wiring.upstreams import Upstreams
from strowger_gateway.gateway.backends.discovery.discovered import NOTHING_DISCOVERED, Discovered
from strowger_gateway.gateway.backends.discovery.source import HostPort
from strowger_gateway.gateway.backends.upstream.base import Upstream, chat_path_of, whole_chat_of
from strowger_gateway.gateway.config.error_codes import plain
from strowger_gateway.gateway.config.schema.config import Config, Model, WhenRule
from strowger_gateway.gateway.config.schema.connection import STREAM_S, WHOLE_S
from strowger_gateway.gateway.config.schema.discovery import DiscoverReplicas
from strowger_gateway.gateway.platform.clock import now
from strowger_gateway.gateway.routing.planning.enrolment import ExperimentRouter, ExperimentState
from strowger_gateway.gateway.routing.planning.model_facts import KnownModels
from strowger_gateway.gateway.routing.planning.policies import POLICIES
from strowger_gateway.gateway.routing.planning.pool_headers import PoolHeaders
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
from strowger_gateway.gateway.routing.resilience.breaker_per_model import Breakers
from strowger_gateway.gateway.routing.resilience.circuit_breaker import Breaker
from strowger_gateway.gateway.routing.resilience.recent_activity import Load
from strowger_gateway.gateway.routing.resilience.replica import REPLICA_MARK, Replica
from strowger_gateway.gateway.routing.resilience.retry import RetryBudget
from strowger_gateway.gateway.routing.slowness.siblings import Siblings

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
    builder = _Builder(config, upstreams, prices, known, before, discovered)
    routes = [builder.route(model) for model in config.models]
    models = {model.name: model for model in config.models}
    experiments = {
        one.model: ExperimentRouter(one, partial(builder.backend, models[one.model]), state)
        for one in config.experiments
        if one.model in models
    }
    aliases = {alias: model.name for model in config.models for alias in model.aliases}
    return Routes(
        table=RouteTable(
            routes, aliases, pooled=any(one.pool is not None for one in config.providers)
        ),
        backends=builder.backends,
        experiments=experiments,
        replicas=builder.replicas,
        loads=_loads(builder.backends.values()),
    )


def _repairs(model: Model, supports: Supports) -> tuple[Repair, ...]:
    """The rules of a backend; the last marks what it caches, if the operator allows marks."""
    rules = with_universal(supports)
    if supports.cache_marks is None or allowed(MARKS, (), supports.client_fields.deny) is False:
        return rules
    return (*rules, *prompt_cache(model.prompt_cache, supports.cache_marks))


def _loads(backends: Iterable[Backend]) -> dict[Replica, list[Load]]:
    found: dict[Replica, list[Load]] = {}
    for backend in backends:
        if backend.replica is not None:
            found.setdefault(backend.replica, []).append(backend.load)
    return found


class _Builder:
    """Builds each backend of a model once, because its health belongs to all its uses."""

    def __init__(
        self,
        config: Config,
        upstreams: Upstreams,
        prices: Prices,
        known: KnownModels,
        before: Routes | None,
        discovered: Discovered,
    ) -> None:
        self._pools = {
            one.name: PoolHeaders(one.pool) for one in config.providers if one.pool is not None
        }
        self._broken_off = {one.name for one in config.providers if one.continues == "no"}
        self._upstreams = upstreams
        self._prices = prices
        self._known = known
        self._before = before
        self._discovered = discovered
        self.backends: dict[str, Backend] = {}
        self._siblings: dict[str, Siblings | None] = {}
        self.replicas: dict[tuple[str, HostPort], Replica] = {}

    def backend(self, model: Model, name: str, use: str = "") -> Backend:
        """The model's backend. use: for one that shares its health with no other use."""
        key = f"{model.name}: {name}{use}"
        if key in self.backends:
            return self.backends[key]
        upstream = self._upstreams.by_provider[name.partition("/")[0]]
        return self._made(key, model, name, upstream, alone=bool(use))

    def all(
        self, model: Model, name: str, discover: DiscoverReplicas | None
    ) -> tuple[Backend, ...]:
        """The model's backend, or one for each of its replicas."""
        if discover is None:
            return (self.backend(model, name),)
        provider = name.partition("/")[0]
        known = self._discovered.of(discover)
        if not known:
            key = f"{model.name}: {name}"
            upstream = self._upstreams.replicas[provider, None]
            return (self.backends.get(key) or self._made(key, model, name, upstream),)
        found: list[Backend] = []
        for address in known:
            key = f"{model.name}: {name}{REPLICA_MARK}{address.text}"
            upstream = self._upstreams.replicas[provider, address]
            replica = self._replica(provider, address, discover)
            found.append(self.backends.get(key) or self._made(key, model, name, upstream, replica))
        return tuple(found)

    def _replica(self, provider: str, address: HostPort, discover: DiscoverReplicas) -> Replica:
        """A replica starts slowly if the generation before had others of its provider."""
        key = provider, address
        if key not in self.replicas:
            before = self._before
            late = before is not None and any(name == provider for name, _ in before.replicas)
            known = before.replicas.get(key) if before is not None else None
            self.replicas[key] = known or Replica(
                address.text,
                joined_at=now() if late else float("-inf"),
                slow_start_s=discover.slow_start_s,
            )
        return self.replicas[key]

    def _made(
        self,
        key: str,
        model: Model,
        name: str,
        upstream: Upstream,
        replica: Replica | None = None,
        *,
        alone: bool = False,
    ) -> Backend:
        """alone: it is compared with no other backend."""
        provider, _, upstream_model = name.partition("/")
        old = self._before.backends.get(key) if self._before else None
        known = old if old is not None and old.upstream is upstream else None
        same_rule = known is not None and known.breaker.rule == model.breaker
        supports = of_model(upstream.supports, upstream_model)
        if provider in self._broken_off:
            supports = replace(supports, continues=None)
        breaker = known.breaker if known and same_rule else Breaker(model.breaker)
        siblings = None if alone else self._siblings_of(model)
        self.backends[key] = Backend(
            name=name,
            model=upstream_model,
            upstream=upstream,
            supports=replace(supports, repairs=_repairs(model, supports)),
            breaker=breaker,
            breakers=known.breakers if known and same_rule else Breakers(model.breaker, breaker),
            budget=self._upstreams.budgets[provider],
            load=known.load if known else Load(),
            prices=self._prices,
            whole_chat=whole_chat_of(upstream),
            chats=chat_path_of(upstream),
            models=self._known,
            replica=replica,
            pool=self._pools.get(provider),
            siblings=siblings,
            owner=model.name,
            timed=siblings is not None or model.breaker.slow_s is not None,
        )
        return self.backends[key]

    def _siblings_of(self, model: Model) -> Siblings | None:
        """What the model's backends share; `None` if there is one, or their order is kept."""
        if model.name not in self._siblings:
            several = len(model.backends) > 1 or any(one.discover for one in model.backends)
            compared = several and model.on_slow == "deprioritise"
            self._siblings[model.name] = Siblings(model.name) if compared else None
        return self._siblings[model.name]

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
                backend=self.backend(model, model.mirror.backend, " (mirror)"),
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
            replicas = self.all(model, name, places.get(name))
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
