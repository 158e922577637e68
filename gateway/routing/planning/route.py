"""What can be followed: backends, and the routes that lead to them, by model name."""

from collections.abc import Callable, Mapping, Sequence
from difflib import get_close_matches
from typing import TYPE_CHECKING, Literal

from msgspec import Struct, field

from adapters.base import Supports
from gateway.config.schema import RequestFields, WhenRule
from gateway.config.schema_failover import Breaker as BreakerRule
from gateway.config.schema_failover import Retry as RetryRule
from gateway.routing.planning.policies import Policy
from gateway.routing.planning.prices import UNPRICED, Prices
from gateway.routing.resilience.breaker_per_model import Breakers
from gateway.routing.resilience.circuit_breaker import Breaker
from gateway.routing.resilience.load import Load
from gateway.routing.resilience.retry import RetryBudget
from gateway.upstream.base import Upstream
from schemas.errors import ModelNotFound

if TYPE_CHECKING:
    from gateway.routing.planning.enrolment import ExperimentRouter
    from gateway.routing.planning.plan import Plan
    from gateway.routing.planning.plan_cache import CachedMatch, RequestShape

NO_VALUES = RequestFields()
"""No values of the operator's."""


class Backend(Struct, frozen=True, kw_only=True, eq=False):
    """One place that can serve a model: PROVIDER/MODEL. `model` "*" hands the asked-for name on.

    budget is shared by all backends of one provider; breaker and load are this backend's own.
    breakers: in place of `breaker`, where its model is "*".
    prices: the operator's, by the name of a candidate.
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

    def breaker_for(self, model: str) -> Breaker:
        """The breaker of a request for this model, for people who look; it makes none."""
        if self.model != "*":
            return self.breaker
        return self.breakers.get(model) or self.breaker


class Rule(Struct, frozen=True, kw_only=True):
    """Requests of a kind go to these backends alone; weights are theirs, in the same order."""

    when: WhenRule
    backends: tuple[Backend, ...]
    weights: tuple[float, ...]


class ErrorFallback(Struct, frozen=True, kw_only=True):
    """Where requests go on that failed with one of these codes: other routes, by name."""

    codes: frozenset[str]
    routes: tuple[str, ...]


class Hedging(Struct, frozen=True, kw_only=True, eq=False):
    """When a second backend is asked beside one that shows nothing. after_s: in seconds.

    budget: what all requests of the route share.
    """

    after_s: float
    budget: RetryBudget


class Mirror(Struct, frozen=True, kw_only=True, eq=False):
    """Where copies of a share of the requests go. The backend is its own: clients never meet it."""

    backend: Backend
    share: float


class Route(Struct, frozen=True, kw_only=True):
    """One entry of `models`, ready to be followed.

    weights:  of `backends`, in the same order.
    sticky_by: whose requests stay together, under policy sticky.
    rules:    the first that matches names the backends.
    require:  only backends that honour what is optional, too.
    detours:  by the code of a failure that no other backend of the route would spare.
    trial:    the experiment over this model.
    defaults: the operator's values where the request is silent; overrides: always.
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
    deadline_s: float = 600.0
    fallback: tuple[str, ...] = ()
    on_unsupported: Literal["error", "drop"] = "error"
    hedging: Hedging | None = None
    mirror: Mirror | None = None
    defaults: RequestFields = NO_VALUES
    overrides: RequestFields = NO_VALUES
    experiment: "ExperimentRouter | None" = None


class RouteTable:
    """The routes by name: exact and alias first, then the longest matching wildcard.

    fits: what `gateway.routing.planning.plan_cache` knows of them. plans: for requests of a route,
    of those in an arm, and of a shape, where nothing else decides.
    """

    def __init__(self, routes: Sequence[Route], aliases: Mapping[str, str]) -> None:
        self.routes = {route.name: route for route in routes}
        self.aliases = dict(aliases)
        self.fits: dict[tuple[object, RequestShape], CachedMatch | None] = {}
        self.plans: dict[tuple[str, str, RequestShape | None], Plan] = {}
        wild = [route for route in routes if route.name.endswith("*")]
        self._wild = sorted(wild, key=lambda route: len(route.name), reverse=True)

    def find(self, model: str, may_use: Callable[[str, str], bool] | None = None) -> Route:
        """may_use: whether a key may use a model, by the name asked for and the route's own.

        Raises ModelNotFound, with the nearest names of those that the key may use. What it may
        not use is as unknown to it as what does not exist.
        """
        route = self.routes.get(self.aliases.get(model, model))
        if route is None:
            wild = (one for one in self._wild if model.startswith(one.name[:-1]))
            route = next(wild, None)
        if route is not None and (may_use is None or may_use(model, route.name)):
            return route
        names = [(name, name) for name in self.routes] + list(self.aliases.items())
        known = [name for name, own in names if may_use is None or may_use(name, own)]
        near = get_close_matches(model, known, n=3)
        hint = f"; did you mean {' or '.join(repr(name) for name in near)}?" if near else ""
        error = ModelNotFound(f"model: there is no model {model!r} here{hint}", param="model")
        error.hidden = route is not None
        raise error
