"""Plan a request: which backends may answer it, in which order, and for how long."""

from collections.abc import Callable, Mapping, Sequence

from msgspec import UNSET
from msgspec.structs import replace

from strowger_gateway.gateway.config.error_codes import meanings
from strowger_gateway.gateway.platform.clock import now
from strowger_gateway.gateway.routing.planning.candidate import (
    Candidate,
    UnmirrorableRequest,
    place_of,
)
from strowger_gateway.gateway.routing.planning.candidate_search import (
    CandidateSearch,
    matching_rule,
)
from strowger_gateway.gateway.routing.planning.capability_match import (
    display_name,
    match_backends,
)
from strowger_gateway.gateway.routing.planning.enrolment import Arm, Enrolment, ExperimentRouter
from strowger_gateway.gateway.routing.planning.last_resort import none_in_time
from strowger_gateway.gateway.routing.planning.model_limits import PlanLimits, fitted, limits_of
from strowger_gateway.gateway.routing.planning.plan import (
    Plan,
    no_backend_available,
    no_error_fallback,
    why_unavailable,
)
from strowger_gateway.gateway.routing.planning.plan_cache import (
    PlanCache,
    RequestShape,
    prompt_characters,
)
from strowger_gateway.gateway.routing.planning.request_facts import RequestFacts
from strowger_gateway.gateway.routing.planning.route import Backend, Mirror, Route, RouteTable
from strowger_gateway.gateway.routing.slowness.siblings import slow_last
from strowger_gateway.schemas.errors import InvalidRequest
from strowger_gateway.schemas.requests import CompletionRequest, Request
from strowger_gateway.schemas.tasks.task import Unsampled

CUT_GRACE_S = 2.0
"""Extra time for a backend to end an answer by itself (`error_behavior: truncate`)."""


class Planner:
    """Plans the requests of one configuration generation.

    Most requests differ only in their text, so plans are cached by request shape, and by values
    where these decide (`PlanCache`).
    Everything else that can differ between two requests is applied after the look-up:
    the client's timeout, the models' limits, the breakers' state, and the draw for the mirror.

    experiments: by the name of the route that they run on. pooled: some backend has a `pool`.
    """

    def __init__(
        self, table: RouteTable, experiments: Mapping[str, ExperimentRouter] | None = None
    ) -> None:
        self.table = table
        self.pooled = table.pooled
        self.experiments = dict(experiments or {})
        self._cache = PlanCache()

    def enrol(self, route: Route, request: Request, facts: RequestFacts) -> Enrolment | None:
        """The request's participation in the route's experiment; `None` without an experiment.

        A request that matches a `when` rule is excluded, because the rule chooses its backend,
        unless it is a replay that asks for a variant. Raises FieldNotAllowed or InvalidRequest for
        a replay that may not, or asks for another one.
        """
        experiment = self.experiments.get(route.name)
        if experiment is None:
            return None
        if experiment.replay_keys:
            replayed = experiment.replayed(facts)
            if replayed is not None:
                return replayed
        if route.rules and matching_rule(route, request, facts) is not None:
            return experiment.excluded_by_rule()
        return experiment.enrol(request, facts)

    def plan(
        self,
        route: Route,
        request: Request,
        facts: RequestFacts,
        enrolment: Enrolment | None = None,
        *,
        counting: bool = False,
    ) -> Plan:
        """Plan one request on its route.

        enrolment: as `enrol` returned it. The backend of its arm comes first, followed by those
        of the route and its fallbacks that belong to no arm. counting: the request's tokens are
        only counted, so that it may exceed the limits of the models.

        Raises InvalidRequest naming the field that no backend can honour, also for a prompt that is
        certainly too long for all of them; Unavailable with
        retry_after if no backend becomes available within the time that a request may wait.
        """
        arm = None if enrolment is None else enrolment.arm
        cache = self._cache
        shape = cache.shape(request)
        key = route.name, "" if arm is None else arm.name, shape
        found = cache.plans.get(key)
        if found is None:
            found = cache.plan_by_values(key, request, facts.caller)
        if found is None:
            search = self._search(request, shape, facts)
            found = self._searched(search, route, arm)
            if shape is not None and not route.error_fallbacks:
                if search.cacheable:
                    cache.put(cache.plans, key, found)
                elif search.repeatable:
                    cache.keep_by_values(key, request, facts.caller, found)
        if request.timeout_s is not UNSET:
            longest_s = _longest(request, request.timeout_s)
            found = replace(
                found,
                deadline_s=min(route.deadline_s, longest_s),
                stream_deadline_s=min(route.stream_deadline_s, longest_s),
            )
        limits = found.limits
        if (
            limits is not None
            and not counting
            and _may_exceed(found.candidates[0].request or request, limits)
        ):
            found = self._within_limits(found, route, request, arm, facts.caller)
        # One comparison per candidate: a healthy backend costs no call into its breaker.
        for candidate in found.candidates:
            if facts.now < candidate.breaker.impaired_until:
                # The backend of an arm stays first: what it is like is what is measured.
                found = _drop_unavailable(found, facts.now, reorder=arm is None)
                break
        if route.mirror is not None:
            copy = _copy(route, route.mirror, request, facts.uniform_draw, facts.caller)
            found = replace(found, mirror=copy)
        return found

    def _search(
        self, request: Request, shape: RequestShape | None, facts: RequestFacts
    ) -> CandidateSearch:
        return CandidateSearch(self.table, self.experiments, self._cache, request, shape, facts)

    def _searched(self, search: CandidateSearch, route: Route, arm: Arm | None) -> Plan:
        """All able backends, available or not. Raises InvalidRequest if there are none."""
        rule = matching_rule(route, search.request, search.facts) if route.rules else None
        found = tuple(search.all(route, rule, arm))
        return Plan(
            route=route.name,
            candidates=found,
            names=_names(found),
            retry=route.retry,
            deadline_s=route.deadline_s,
            stream_deadline_s=route.stream_deadline_s,
            operator_deadline_s=route.deadline_s,
            ruled_out=tuple(search.ruled_out),
            rule=rule,
            error_fallback=self._error_fallbacks(search, route)
            if route.error_fallbacks
            else no_error_fallback,
            hedging=route.hedging,
            limits=limits_of(found),
            continues=route.stream_recovery == "continue",
            restarts=route.stream_recovery == "restart",
        )

    def _within_limits(
        self, plan: Plan, route: Route, request: Request, arm: Arm | None, tenant: str
    ) -> Plan:
        """The plan without the backends whose model cannot read the prompt.

        Raises InvalidRequest if none can, and `fallback_by_error` has none for that.
        """
        places = self._places(route, arm)
        found = fitted(plan.candidates, request, places, require=route.require, tenant=tenant)
        candidates = found.candidates
        if found.refusal is not None:
            candidates = plan.error_fallback(found.refusal.code)
            if not candidates:
                raise found.refusal
        return replace(
            plan,
            candidates=candidates,
            names=_names(candidates),
            ruled_out=(*plan.ruled_out, *found.ruled_out),
        )

    def _places(self, route: Route, arm: Arm | None) -> dict[int, int]:
        """By `id` of a backend, the place of its route; that of the arm is before all others."""
        places = {} if arm is None else {id(arm.backend): -1}
        for place, name in enumerate((route.name, *route.fallback)):
            one = self.table.routes[name]
            for backend in (*one.backends, *(b for rule in one.rules for b in rule.backends)):
                places.setdefault(id(backend), place)
        return places

    def _error_fallbacks(
        self, search: CandidateSearch, route: Route
    ) -> Callable[[str], tuple[Candidate, ...]]:
        """The candidates of `fallback_by_error`, searched for when such an error occurs."""

        def error_fallback(code: str) -> tuple[Candidate, ...]:
            found: list[Candidate] = []
            at = replace(search.facts, now=now())
            later = self._search(search.request, search.shape, at)
            later.arm_backends = search.arm_backends
            classes = meanings(code)
            for row in route.error_fallbacks:
                if classes.isdisjoint(row.codes):
                    continue
                for name in row.routes:
                    other = self.table.routes[name]
                    try:
                        able = later.ordered(other, matching_rule(other, search.request, at))
                    except InvalidRequest:
                        continue
                    found += able
            fitting = fitted(
                found, search.request, {}, require=route.require, tenant=at.caller
            ).candidates
            if none_in_time(fitting, route.retry, route.deadline_s, at.now):
                return ()
            return fitting

        return error_fallback


def _names(candidates: Sequence[Candidate]) -> tuple[str, ...]:
    """The names in order; the replicas of one backend have one name."""
    names = [candidate.name for candidate in candidates]
    return tuple(names if len(names) < 2 else dict.fromkeys(names))


def _copy(
    route: Route, mirror: Mirror, request: Request, draw: float, tenant: str
) -> Candidate | UnmirrorableRequest | None:
    """The mirror's candidate if this request is drawn for a copy.

    The draw's later digits decide, because the first digits have chosen the backend.
    """
    if draw * 2.0**20 % 1.0 >= mirror.share:
        return None
    hold = mirror.backend.breaker.hold
    if hold is not None:
        return _not_mirrored(mirror.backend, request, hold.state, hold.words)
    try:
        valued = route.valued(request)
        able = match_backends(route, (mirror.backend,), (1.0,), valued, [], tenant=tenant)
        found = fitted(able, request, {}, require=route.require, tenant=tenant)
        if found.refusal is not None:
            raise found.refusal
        return found.candidates[0]
    except InvalidRequest as exc:
        return _not_mirrored(mirror.backend, request, exc.code, exc.message)


def _not_mirrored(
    backend: Backend, request: Request, code: str, reason: str
) -> UnmirrorableRequest:
    return UnmirrorableRequest(
        name=display_name(backend, request),
        pattern=backend.name if backend.model == "*" else "",
        code=code,
        reason=reason,
    )


def _may_exceed(request: Request, limits: PlanLimits) -> bool:
    """Whether the request has to be compared with each candidate's limits: rarely."""
    if isinstance(request, Unsampled):
        return False
    most = request.sampling.max_tokens
    if type(most) is int and most > limits.max_output:
        return True
    return prompt_characters(request) > limits.characters


def _longest(request: Request, timeout_s: float) -> float:
    """The client's timeout; longer if it only truncates the answer."""
    cut = isinstance(request, CompletionRequest) and request.error_behavior == "truncate"
    return timeout_s + (CUT_GRACE_S if cut else 0.0)


def _drop_unavailable(plan: Plan, now: float, *, reorder: bool) -> Plan:
    """The available candidates first, deprioritised ones last among them.

    reorder: slow ones come after their siblings. Raises Unavailable if no backend can be asked in
    time.
    """
    able = slow_last(plan.candidates, now) if reorder else plan.candidates
    preferred = tuple([one for one in able if one.breaker.is_preferred(now)])
    if len(preferred) == len(able):
        same = able == plan.candidates
        return plan if same else replace(plan, candidates=able, names=_names(able))
    deprioritised = [one for one in able if one not in preferred and one.breaker.is_available(now)]
    available = (*preferred, *deprioritised)
    resting = [one for one in able if not one.breaker.is_available(now)]
    reasons = [(place_of(one), why_unavailable(one, now)) for one in resting]
    unavailable = tuple([one for one in resting if one.breaker.hold is None])
    if not available and none_in_time(unavailable, plan.retry, plan.deadline_s, now):
        raise no_backend_available(resting, now)
    return replace(
        plan,
        candidates=available,
        names=_names(available or unavailable),
        unavailable=unavailable,
        ruled_out=(*plan.ruled_out, *reasons),
    )
