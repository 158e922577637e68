"""The able backends of a route, its rule or an experiment's arm, in the order to be asked."""

from collections.abc import Sequence

import msgspec

from gateway.routing.planning.candidate import Candidate
from gateway.routing.planning.capability_match import (
    display_name,
    match_backends,
    with_operator_values,
)
from gateway.routing.planning.enrolment import Arm
from gateway.routing.planning.plan_cache import (
    CachedMatch,
    RequestShape,
    cached_match,
    request_shape,
)
from gateway.routing.planning.policies import BackendStats, Key, Policy
from gateway.routing.planning.prices import expected_cost
from gateway.routing.planning.request_facts import (
    RequestFacts,
    estimated_tokens,
    prefix_of,
    unit_of,
)
from gateway.routing.planning.route import NO_VALUES, Backend, Route, RouteTable
from gateway.routing.planning.when_rules import matches
from schemas.errors import InvalidRequest, Unavailable
from schemas.requests import EmbeddingsRequest, Request


def matching_rule(route: Route, request: Request, facts: RequestFacts) -> int | None:
    """The place of the first rule that matches."""
    for index, rule in enumerate(route.rules):
        if matches(rule.when, request, facts):
            return index
    return None


class CandidateSearch:
    """Who of a spot's backends is able, for one request. A spot is a route, its rule, or an arm.

    apart: backends that may not be among a route's, for they are an experiment's arms.
    fixed: all requests of the shape find the same, in the same order.
    """

    __slots__ = ("arm_backends", "cacheable", "facts", "request", "ruled_out", "shape", "table")

    def __init__(
        self,
        table: RouteTable,
        request: Request,
        shape: RequestShape | None,
        facts: RequestFacts,
        ruled_out: list[tuple[str, str]],
    ) -> None:
        self.table = table
        self.request = request
        self.shape = shape
        self.facts = facts
        self.ruled_out = ruled_out
        self.arm_backends: frozenset[str] = frozenset()
        self.cacheable = True

    def all(self, route: Route, place: int | None, arm: Arm | None) -> Sequence[Candidate]:
        """Those of the arm, of the route by its rule at `place`, and of its fallbacks.

        Raises InvalidRequest, the first, where none is able.
        """
        found: list[Candidate] = []
        refusal: InvalidRequest | None = None
        if arm is not None and route.experiment is not None:
            self.arm_backends = route.experiment.arm_backends
            try:
                found += self.for_variant(route, arm)
            except InvalidRequest as exc:
                refusal = exc
        for name in (route.name, *route.fallback):
            current = self.table.routes[name]
            if current is not route:
                place = matching_rule(current, self.request, self.facts)
            try:
                found += self.ordered(current, place)
            except InvalidRequest as exc:
                refusal = refusal or exc
        if not found:
            raise refusal or Unavailable(f"model {route.name!r} has no backend")
        return found

    def ordered(self, route: Route, place: int | None) -> Sequence[Candidate]:
        """The able, in the policy's order: of the route's own, or of its rule's at `place`.

        Behind all that honour every field stand, ordered likewise, those that lack some.
        Raises InvalidRequest where none is able.
        """
        request = self._with_operator_values(route)
        # Which backends are kept apart goes by the model's name, where one is a wildcard.
        spot = route.name, place, self.request.model if self.arm_backends else ""
        shape = self.shape if request is self.request else request_shape(request)
        fit = cached_match(self.table.fits, spot, shape, request, lambda: self._pool(route, place))
        wild = self.arm_backends and any(one.model == "*" for one in route.backends)
        if fit is None:
            self.cacheable = False
            backends, weights = self._pool(route, place)
            if not backends:
                return ()
            found = match_backends(route, backends, weights, request, self.ruled_out)
        else:
            found = self._matched(fit, request)
        if route.rules or wild:
            self.cacheable = False
        if len(found) < 2:
            return found
        self.cacheable = False
        policy, facts = route.policy, self.facts
        if fit is not None and policy.plain:
            standings = fit.stats
        else:
            standings = [stats_of(one, self.request, policy, facts) for one in found]
        key = _key(policy.key, route, self.request, facts) if policy.key else b""
        if fit is None and found[-1].dropped:
            full = sum(not one.dropped for one in found)
            return [
                some[index]
                for some, known in (
                    (found[:full], standings[:full]),
                    (found[full:], standings[full:]),
                )
                if some
                for index in policy.order(known, facts.uniform_draw, key)
            ]
        return [found[index] for index in policy.order(standings, facts.uniform_draw, key)]

    def for_variant(self, route: Route, arm: Arm) -> Sequence[Candidate]:
        """The arm's backend, with what the arm sets. Raises InvalidRequest where it is not able."""
        request = self._with_operator_values(route)
        if arm.sampling or arm.system:
            request = arm.applied_to(request)
        shape = self.shape if request is self.request else request_shape(request)
        pool = (arm.backend,), (1.0,)
        fit = cached_match(self.table.fits, (route.name, arm.name), shape, request, lambda: pool)
        if fit is not None:
            return self._matched(fit, request)
        self.cacheable = False
        return match_backends(route, *pool, request, self.ruled_out)

    def _with_operator_values(self, route: Route) -> Request:
        if route.defaults is NO_VALUES and route.overrides is NO_VALUES:
            return self.request
        return with_operator_values(route, self.request)

    def _matched(self, fit: CachedMatch, request: Request) -> Sequence[Candidate]:
        """fit: of the kind that `request`, as the operator or an arm has it, is of."""
        self.cacheable = self.cacheable and not fit.bounds and request is self.request
        if request is self.request:
            return fit.candidates
        return [msgspec.structs.replace(one, request=request) for one in fit.candidates]

    def _pool(self, route: Route, place: int | None) -> tuple[Sequence[Backend], Sequence[float]]:
        chosen = route if place is None else route.rules[place]
        backends, weights = chosen.backends, chosen.weights
        if not self.arm_backends:
            return backends, weights
        kept = [
            place
            for place, one in enumerate(backends)
            if display_name(one, self.request) not in self.arm_backends
        ]
        return [backends[place] for place in kept], [weights[place] for place in kept]


def stats_of(
    candidate: Candidate, asked: Request, policy: Policy, facts: RequestFacts
) -> BackendStats:
    """What the policy gets to know of it."""
    backend = candidate.backend
    if policy.plain:
        return BackendStats(name=candidate.name, weight=candidate.weight)
    request, price = candidate.request or asked, backend.prices.of(candidate.name)
    generates = not isinstance(request, EmbeddingsRequest)
    bound = request.sampling.max_tokens if generates else 0
    return BackendStats(
        name=candidate.name,
        weight=candidate.weight,
        busy=backend.load.busy,
        latency_s=backend.load.latency(facts.now, stream=generates and request.stream),
        cost_usd=None
        if price is None
        else expected_cost(
            estimated_tokens(request), bound if isinstance(bound, int) else None, price
        ),
    )


def _key(kind: Key, route: Route, request: Request, facts: RequestFacts) -> bytes:
    if kind == "unit":
        return unit_of(request, facts, route.sticky_by).encode("utf-8", "replace")
    return prefix_of(request, facts) if kind == "prefix" else b""
