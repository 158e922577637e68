"""Find the able backends of a route, of one of its rules, or of an experiment's arm, in order."""

from collections.abc import Hashable, Mapping, Sequence

import msgspec

from strowger_gateway.adapters.repairs.rule import Aim, repaired
from strowger_gateway.gateway.routing.planning.candidate import Candidate
from strowger_gateway.gateway.routing.planning.capability_match import (
    display_name,
    match_backends,
)
from strowger_gateway.gateway.routing.planning.enrolment import Arm, ExperimentRouter
from strowger_gateway.gateway.routing.planning.plan_cache import (
    PlanCache,
    RequestShape,
    values_of,
)
from strowger_gateway.gateway.routing.planning.policies import BackendStats, Key, Policy
from strowger_gateway.gateway.routing.planning.prices import expected_cost
from strowger_gateway.gateway.routing.planning.replica_order import replica_order
from strowger_gateway.gateway.routing.planning.request_facts import (
    RequestFacts,
    estimated_tokens,
    prefix_of,
    searches_in,
    unit_of,
)
from strowger_gateway.gateway.routing.planning.route import Backend, Route, RouteTable
from strowger_gateway.gateway.routing.planning.shared_match import (
    CachedMatch,
    any_reads_text,
)
from strowger_gateway.gateway.routing.planning.when_rules import matches
from strowger_gateway.schemas.content_facts import facts_of
from strowger_gateway.schemas.errors import InvalidRequest, Unavailable
from strowger_gateway.schemas.fields import without
from strowger_gateway.schemas.requests import Request
from strowger_gateway.schemas.tasks.task import Unsampled


def matching_rule(route: Route, request: Request, facts: RequestFacts) -> int | None:
    """The index of the first `when` rule that matches, from 0; `None` if none does."""
    for index, rule in enumerate(route.rules):
        if matches(rule.when, request, facts):
            return index
    return None


class CandidateSearch:
    """Searches the backends for one request. A scope is a route, one of its rules, or an arm.

    arm_backends: names of backends that are an experiment's arms, and so not the route's.
    cacheable: every request of this shape finds the same candidates in the same order.
    repeatable: so does every request of this shape with the same values.
    """

    __slots__ = (
        "_cache",
        "_experiments",
        "_table",
        "arm_backends",
        "cacheable",
        "facts",
        "repeatable",
        "request",
        "ruled_out",
        "shape",
    )

    def __init__(
        self,
        table: RouteTable,
        experiments: Mapping[str, ExperimentRouter],
        cache: PlanCache,
        request: Request,
        shape: RequestShape | None,
        facts: RequestFacts,
    ) -> None:
        self._table = table
        self._experiments = experiments
        self._cache = cache
        self.request = request
        self.shape = shape
        self.facts = facts
        self.ruled_out: list[tuple[str, str]] = []
        self.arm_backends: frozenset[str] = frozenset()
        self.cacheable = True
        self.repeatable = True

    def all(self, route: Route, rule: int | None, arm: Arm | None) -> Sequence[Candidate]:
        """The candidates of the arm, of the route by its rule, and of the route's fallbacks.

        rule: the index of the rule that matches. Raises the first InvalidRequest if no backend is
        able.
        """
        found: list[Candidate] = []
        refusal: InvalidRequest | None = None
        experiment = self._experiments.get(route.name)
        if arm is not None and experiment is not None:
            self.arm_backends = experiment.arm_backends
            try:
                found += self.for_variant(route, arm)
            except InvalidRequest as exc:
                refusal = exc
        for name in (route.name, *route.fallback):
            current = self._table.routes[name]
            if current is not route:
                rule = matching_rule(current, self.request, self.facts)
            try:
                found += self.ordered(current, rule)
            except InvalidRequest as exc:
                refusal = refusal or exc
        if not found:
            raise refusal or Unavailable(f"model {route.name!r} has no backend")
        return found

    def ordered(self, route: Route, rule: int | None) -> Sequence[Candidate]:
        """The able backends of the route, or of its rule, in the policy's order.

        Backends that lack an optional field follow those that honour every field; the policy
        orders each group. Raises InvalidRequest if no backend is able.
        """
        request = route.valued(self.request)
        # A wildcard backend is an arm's for one model name and the route's for all others.
        scope = route.name, rule, self.request.model if self.arm_backends else ""
        shape = self.shape if request is self.request else self._cache.shape(request)
        match = self._cache.match(
            scope, shape, request, lambda: self._pool(route, rule), require=route.require
        )
        wild = self.arm_backends and any(one.model == "*" for one in route.backends)
        if route.rules or wild:
            self.cacheable = self.repeatable = False
        if match is None:
            backends, weights = self._pool(route, rule)
            if not backends:
                self.cacheable = False
                return ()
            found = self._checked(route, scope, shape, backends, weights, request)
        else:
            found = self._matched(match, request)
        policy, facts = route.policy, self.facts
        if len(found) < 2 or (policy.fixed and not route.replicated):
            return found
        self.cacheable = self.repeatable = False
        if match is not None and policy.plain:
            stats = match.stats
        else:
            stats = [stats_of(one, self.request, policy, facts) for one in found]
        key = _key(policy.key, route, self.request, facts) if policy.key else b""
        if route.replicated:
            full = len(found) if match is not None else sum(one.complete for one in found)
            parts = ((found[:full], stats[:full]), (found[full:], stats[full:]))
            return [
                some[index]
                for some, known in parts
                if some
                for index in replica_order(some, known, policy, facts.uniform_draw, key, facts.now)
            ]
        if match is None and not found[-1].complete:
            full = sum(one.complete for one in found)
            return [
                some[index]
                for some, known in (
                    (found[:full], stats[:full]),
                    (found[full:], stats[full:]),
                )
                if some
                for index in policy.order(known, facts.uniform_draw, key)
            ]
        return [found[index] for index in policy.order(stats, facts.uniform_draw, key)]

    def for_variant(self, route: Route, arm: Arm) -> Sequence[Candidate]:
        """The arm's backend with the request as the arm changes it.

        Raises InvalidRequest if it cannot honour the request.
        """
        request = route.valued(self.request)
        if arm.sampling or arm.system:
            request = arm.applied_to(request)
        shape = self.shape if request is self.request else self._cache.shape(request)
        pool = (arm.backend,), (1.0,)
        match = self._cache.match(
            (route.name, arm.name), shape, request, lambda: pool, require=route.require
        )
        if match is not None:
            return self._matched(match, request)
        return self._checked(route, (route.name, arm.name), shape, *pool, request)

    def _checked(
        self,
        route: Route,
        scope: Hashable,
        shape: RequestShape | None,
        backends: Sequence[Backend],
        weights: Sequence[float],
        request: Request,
    ) -> Sequence[Candidate]:
        """What a full check finds; from an earlier request's if it had the same values.

        Raises InvalidRequest if no backend is able.
        """
        self.cacheable = False
        tenant, ruled_out = self.facts.caller, list[tuple[str, str]]()
        values = None
        if shape is not None and not self._cache.texts_decide((scope, shape), request, backends):
            values = values_of(request, tenant)
        if values is None or shape is None:
            self.repeatable = False
        else:
            earlier = self._cache.checked((scope, shape, values), request, self.ruled_out)
            if earlier is not None:
                return earlier if request is self.request else _with_request(earlier, request)
        try:
            found = match_backends(route, backends, weights, request, ruled_out, tenant=tenant)
        finally:
            self.ruled_out += ruled_out
        if values is not None and shape is not None:
            self._cache.keep_checked((scope, shape, values), request, found, ruled_out)
        return found

    def _matched(self, match: CachedMatch, request: Request) -> Sequence[Candidate]:
        """The match's candidates with the request that they get.

        request: as the operator's values or an arm have changed it.
        """
        self.cacheable = self.cacheable and not match.bounds and request is self.request
        if match.dropped:
            self.cacheable = False
            request = without(request, match.dropped)
        if match.pending:
            self.cacheable = False
            if self.repeatable:
                facts = facts_of(request)
                rules = [one for each in match.candidates for one in each.pending]
                self.repeatable = not any_reads_text(rules, facts)
            return [self._after_rules(one, request) for one in match.candidates]
        if request is self.request:
            return match.candidates
        return [msgspec.structs.replace(one, request=request) for one in match.candidates]

    def _after_rules(self, candidate: Candidate, request: Request) -> Candidate:
        """The candidate with the request that its pending rules make of this one."""
        dialect = candidate.backend.supports.dialect
        aim = Aim(model=candidate.model, tenant=self.facts.caller, dialect=dialect)
        done = repaired(request, candidate.pending, aim)
        return msgspec.structs.replace(
            candidate,
            request=done.request,
            repaired=done.made,
            loss=done.loss,
            undo=done.undo,
            omitted=candidate.omitted + done.left_out,
            pending=(),
        )

    def _pool(self, route: Route, rule: int | None) -> tuple[Sequence[Backend], Sequence[float]]:
        """The backends of the scope without the experiment's arms, and their weights."""
        scope = route if rule is None else route.rules[rule]
        backends, weights = scope.backends, scope.weights
        if not self.arm_backends:
            return backends, weights
        kept = [
            place
            for place, one in enumerate(backends)
            if display_name(one, self.request) not in self.arm_backends
        ]
        return [backends[place] for place in kept], [weights[place] for place in kept]


def _with_request(candidates: Sequence[Candidate], request: Request) -> Sequence[Candidate]:
    """The candidates, with this request where nothing has changed it for them."""
    replace = msgspec.structs.replace
    return [one if one.request else replace(one, request=request) for one in candidates]


def stats_of(
    candidate: Candidate, client_request: Request, policy: Policy, facts: RequestFacts
) -> BackendStats:
    """The statistics that the policy orders the candidate by."""
    backend = candidate.backend
    if policy.plain:
        return BackendStats(name=candidate.name, weight=candidate.weight)
    request = candidate.request or client_request
    price = backend.prices.of(candidate.name)
    generates = not isinstance(request, Unsampled)
    bound = request.sampling.max_tokens if generates else 0
    return BackendStats(
        name=candidate.name,
        weight=candidate.weight,
        busy=backend.load.busy,
        latency_s=backend.load.latency(facts.now, stream=generates and request.stream),
        cost_usd=None
        if price is None
        else expected_cost(
            estimated_tokens(request),
            bound if isinstance(bound, int) else None,
            price,
            searches_in(request),
        ),
    )


def _key(kind: Key, route: Route, request: Request, facts: RequestFacts) -> bytes:
    if kind == "unit":
        return unit_of(request, facts, route.sticky_by).encode("utf-8", "replace")
    return prefix_of(request, facts) if kind == "prefix" else b""
