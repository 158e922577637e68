"""The routes by model name, and the backends that they lead to: plain values."""

from collections.abc import Callable, Mapping, Sequence
from typing import Final, Literal

from msgspec import Struct, field

from strowger_gateway.adapters.base import Supports
from strowger_gateway.gateway.backends.upstream.base import ChatPath, Upstream, WholeChat
from strowger_gateway.gateway.config.schema.config import RequestFields, WhenRule
from strowger_gateway.gateway.config.schema.connection import STREAM_S, WHOLE_S
from strowger_gateway.gateway.config.schema.failover import BreakerRule, RetryRule, StreamRecovery
from strowger_gateway.gateway.routing.planning.model_facts import NOTHING_KNOWN, KnownModels
from strowger_gateway.gateway.routing.planning.policies import Policy
from strowger_gateway.gateway.routing.planning.pool_headers import PoolHeaders
from strowger_gateway.gateway.routing.planning.prices import UNPRICED, Prices
from strowger_gateway.gateway.routing.planning.request_defaults import with_values
from strowger_gateway.gateway.routing.resilience.breaker_per_model import Breakers
from strowger_gateway.gateway.routing.resilience.circuit_breaker import Breaker
from strowger_gateway.gateway.routing.resilience.recent_activity import Load
from strowger_gateway.gateway.routing.resilience.replica import REPLICA_MARK, Replica
from strowger_gateway.gateway.routing.resilience.retry import RetryBudget
from strowger_gateway.gateway.routing.slowness.siblings import Siblings
from strowger_gateway.schemas.close_names import close_names
from strowger_gateway.schemas.errors import ModelNotFound
from strowger_gateway.schemas.requests import Request

NO_VALUES = RequestFields()
"""The operator sets no values."""


class Backend(Struct, frozen=True, kw_only=True, eq=False):
    """One place that serves a model: PROVIDER/MODEL. `model` "*" passes the requested name on.

    budget: retries, shared by all backends of one provider. breaker, load: this backend's own.
    breakers: one per model name, in place of `breaker`, if its model is "*".
    prices, models: the prices and facts, by the name of a candidate.
    whole_chat: of its upstream; `None` if that has none.
    chats: the path of most chats, past the upstream's adaptations; `None` if there are none.
    replica: which of the backend's replicas it is; `None` if the backend has none.
    pool: renders headers for its endpoint picker; `None` without one.
    siblings: the backends of the same model that it is compared with; `None` if it never is.
    owner: the name of the model that it belongs to, as in `models`.
    timed: times of attempts are compared, with those of siblings or with `breaker.slow_s`.
    """

    name: str
    model: str
    upstream: Upstream
    supports: Supports
    breaker: Breaker
    budget: RetryBudget
    breakers: Breakers = field(default_factory=lambda: Breakers(BreakerRule()))
    load: Load = field(default_factory=Load)
    prices: Prices = UNPRICED
    whole_chat: WholeChat | None = None
    chats: ChatPath | None = None
    models: KnownModels = NOTHING_KNOWN
    replica: Replica | None = None
    pool: PoolHeaders | None = None
    siblings: Siblings | None = None
    owner: str = ""
    timed: bool = False

    @property
    def place(self) -> str:
        """Its name, with the address of its replica: `pool/chat @ 10.0.0.7:8000`."""
        return f"{self.name}{REPLICA_MARK}{self.replica.address}" if self.replica else self.name

    def breaker_for(self, model: str) -> Breaker:
        """The breaker for requests of this model name, to display it; creates none."""
        if self.model != "*":
            return self.breaker
        return self.breakers.get(model) or self.breaker


class Rule(Struct, frozen=True, kw_only=True):
    """A `when` rule: requests that match go to these backends only.

    weights: of the backends, in the same order.
    """

    when: WhenRule
    backends: tuple[Backend, ...]
    weights: tuple[float, ...]


class ErrorFallback(Struct, frozen=True, kw_only=True):
    """A row of `fallback_by_error`: the routes, by name, for requests that fail with a code."""

    codes: frozenset[str]
    routes: tuple[str, ...]


class Hedging(Struct, frozen=True, kw_only=True, eq=False):
    """When a second backend is asked because the first shows no content. after_s: in seconds.

    budget: shared by all requests of the route.
    """

    after_s: float
    budget: RetryBudget


class Mirror(Struct, frozen=True, kw_only=True, eq=False):
    """The backend that gets copies of a share of the requests; clients never see its answers.

    share: from 0 to 1.
    """

    backend: Backend
    share: float


class Route(Struct, frozen=True, kw_only=True):
    """One entry of `models`, resolved to its backends.

    weights:  of `backends`, in the same order.
    sticky_by: what requests that stay together have in common, under policy `sticky`.
    rules:    the first that matches chooses the backends.
    require:  only backends that honour optional fields, too.
    on_repair: `reject` refuses repairs that lose a constraint
    (strowger_gateway.adapters.repairs.rule.Loss).
    error_fallbacks: routes for errors that no other backend of this route would avoid.
    defaults: the operator's values for fields that a request does not set; overrides: for all.
    replicated: some of its backends are replicas.
    """

    name: str
    backends: tuple[Backend, ...]
    weights: tuple[float, ...]
    policy: Policy
    sticky_by: str = "user"
    rules: tuple[Rule, ...] = ()
    require: bool = False
    error_fallbacks: tuple[ErrorFallback, ...] = ()
    retry: RetryRule = RetryRule()
    deadline_s: float = WHOLE_S
    stream_deadline_s: float = STREAM_S
    fallback: tuple[str, ...] = ()
    on_unsupported: Literal["error", "drop"] = "error"
    on_repair: Literal["send", "reject"] = "send"
    hedging: Hedging | None = None
    stream_recovery: StreamRecovery = "error"
    mirror: Mirror | None = None
    defaults: RequestFields = NO_VALUES
    overrides: RequestFields = NO_VALUES
    replicated: bool = False

    @property
    def refuses_lossy_repairs(self) -> bool:
        """Whether a request is refused rather than repaired with the loss of a constraint."""
        return self.require or self.on_repair == "reject"

    def valued(self, request: Request) -> Request:
        """The request with the operator's values for the model."""
        if self.defaults is NO_VALUES and self.overrides is NO_VALUES:
            return request
        return with_values(request, self.defaults, self.overrides)


LATEST: Final = ":latest"
GOOGLES_PREFIX: Final = "models/"
"""The tag of a model of Ollama that is named without one."""


class RouteTable:
    """The routes by name: exact and alias first, then the longest matching wildcard.

    pooled: some backend has a `pool`.
    """

    def __init__(
        self, routes: Sequence[Route], aliases: Mapping[str, str], *, pooled: bool = False
    ) -> None:
        self.routes = {route.name: route for route in routes}
        self.aliases = dict(aliases)
        self.pooled = pooled
        named = {alias: self.routes.get(name) for alias, name in aliases.items()}
        self._exact: dict[str, Route | None] = {**self.routes, **named}
        wild = [route for route in routes if route.name.endswith("*")]
        self._wild = sorted(wild, key=lambda route: len(route.name), reverse=True)

    def names(self, may_use: Callable[[str, str], bool]) -> list[str]:
        """Return the names that a key may ask for: models and aliases, without wildcards."""
        named = [(name, name) for name in self.routes if not name.endswith("*")]
        named += list(self.aliases.items())
        return [asked for asked, route in named if may_use(asked, route)]

    def find(self, model: str, may_use: Callable[[str, str], bool] | None = None) -> Route:
        """Find the route of a model name.

        may_use: whether a key may use a model, by the requested name and the route's own.

        Raises ModelNotFound, with the nearest names among those that the key may use. A model
        that the key may not use gives the same error as one that does not exist.
        """
        route = self._exact.get(model) or self._matching_wildcard(model)
        if route is not None and (may_use is None or may_use(model, route.name)):
            return route
        raise self._not_found(model, may_use, hidden=route is not None)

    def tagged(self, model: str) -> str:
        """Return the name of a model that a client names with Ollama's default tag, or without it.

        A wildcard gets the name without the tag, which means the same to an Ollama server, and
        nothing to any other.
        """
        if model in self._exact:
            return model
        bare = model.removesuffix(LATEST)
        other = bare if bare != model else model + LATEST
        return other if other in self._exact else bare

    def prefixed(self, model: str) -> str:
        """Return the name of a model that a client names as Google's APIs do, as `models/NAME`."""
        bare = model
        while bare.startswith(GOOGLES_PREFIX):
            bare = bare.removeprefix(GOOGLES_PREFIX)
        if bare == model or model in self._exact:
            return model
        wild = self._matching_wildcard(model)
        return model if wild is not None and wild.name.startswith(GOOGLES_PREFIX) else bare

    def _matching_wildcard(self, model: str) -> Route | None:
        wild = (one for one in self._wild if model.startswith(one.name[:-1]))
        return next(wild, None)

    def _not_found(
        self, model: str, may_use: Callable[[str, str], bool] | None, *, hidden: bool
    ) -> ModelNotFound:
        names = [(name, name) for name in self.routes] + list(self.aliases.items())
        known = [name for name, own in names if may_use is None or may_use(name, own)]
        near = close_names(model, known, 3)
        hint = f"; did you mean {' or '.join(repr(name) for name in near)}?" if near else ""
        error = ModelNotFound(f"model {model!r} not found{hint}", param="model")
        error.hidden = hidden
        return error
