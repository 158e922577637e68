"""From a request to the ordered backends that may answer it."""

from collections.abc import Callable, Sequence
from math import ceil

from msgspec import UNSET, Struct
from msgspec.structs import replace

from gateway.clock import now
from gateway.config.error_codes import meanings
from gateway.config.schema_failover import Retry as RetryRule
from gateway.routing.planning.candidate import Candidate, UnmirrorableRequest
from gateway.routing.planning.candidate_search import CandidateSearch, matching_rule
from gateway.routing.planning.capability_match import (
    display_name,
    match_backends,
    with_operator_values,
)
from gateway.routing.planning.enrolment import Arm, Enrolment
from gateway.routing.planning.last_resort import none_in_time
from gateway.routing.planning.plan_cache import cache_put, request_shape
from gateway.routing.planning.request_facts import RequestFacts
from gateway.routing.planning.route import Hedging, Mirror, Route, RouteTable
from schemas.errors import InvalidRequest, RateLimited, Unavailable
from schemas.requests import CompletionRequest, Request

CUT_GRACE_S = 2.0
"""For a backend to end, by itself, an answer whose time is over (`error_behavior: truncate`)."""


def _no_error_fallback(code: str) -> "tuple[Candidate, ...]":
    """No detour."""
    return ()


class Plan(Struct, frozen=True, kw_only=True, eq=False, gc=False):
    """Who may answer, first choice first, and within which bounds. Times in seconds.

    Nothing of the request is in it, so that requests of a kind can share one.

    candidates: the healthy. Empty where none is: then `ill` is not.
    ill:       those that could answer and are not healthy: tried when no other is left.
    names:     of the candidates, or of the ill where there are none.
    deadline_s: over everything: the operator's, or the client's where that is shorter.
    patience_s: the operator's.
    ruled_out: backends that may not, each with the reason, for logs and `strowger explain`.
    rule:      the place of the `when` rule that matched, from 0; `None` where none did.
    detour:    by the code of a failure, who may answer in place of those that are left.
    mirror:    who gets a copy afterwards, or should and cannot.
    """

    route: str
    candidates: tuple[Candidate, ...]
    names: tuple[str, ...]
    retry: RetryRule
    deadline_s: float
    operator_deadline_s: float
    unavailable: tuple[Candidate, ...] = ()
    ruled_out: tuple[tuple[str, str], ...] = ()
    rule: int | None = None
    error_fallback: Callable[[str], tuple[Candidate, ...]] = _no_error_fallback
    hedging: Hedging | None = None
    mirror: Candidate | UnmirrorableRequest | None = None


def enrol(route: Route, request: Request, facts: RequestFacts) -> Enrolment | None:
    """The request's part in the model's experiment: one whom a `when` rule takes has none."""
    trial = route.experiment
    if trial is None:
        return None
    if route.rules and matching_rule(route, request, facts) is not None:
        return trial.excluded_by_rule()
    return trial.enrol(request, facts)


def plan(
    table: RouteTable,
    route: Route,
    request: Request,
    facts: RequestFacts,
    enrolment: Enrolment | None = None,
) -> Plan:
    """The candidates for one request on its route.

    enrolment: as `enrol` said, where the caller has asked it already. An arm's backend comes
    first, then those of the route and of its fallbacks that are no arm's.

    Raises InvalidRequest naming the field that no backend can honour; Unavailable with
    retry_after when every backend is rate-limited for longer than a request waits.
    """
    if enrolment is None and route.experiment is not None:
        enrolment = enrol(route, request, facts)
    arm = None if enrolment is None else enrolment.arm
    shape = request_shape(request)
    known = route.name, "" if arm is None else arm.name, shape
    found = table.plans.get(known)
    if found is None:
        search = CandidateSearch(table, request, shape, facts, [])
        found = _search(search, route, arm)
        if search.cacheable and shape is not None and not route.error_fallbacks:
            cache_put(table.plans, known, found)
    if request.timeout_s is not UNSET:
        found = replace(found, deadline_s=_deadline(route, request, request.timeout_s))
    for candidate in found.candidates:
        if facts.now < candidate.breaker.impaired_until:
            found = _drop_unavailable(found, facts.now)
            break
    if route.mirror is not None:
        found = replace(found, mirror=_copy(route, route.mirror, request, facts.uniform_draw))
    return found


def _search(search: CandidateSearch, route: Route, arm: Arm | None) -> Plan:
    """Whoever is able, well or not. Raises InvalidRequest where nobody is."""
    rule = matching_rule(route, search.request, search.facts) if route.rules else None
    found = tuple(search.all(route, rule, arm))
    return Plan(
        route=route.name,
        candidates=found,
        names=_names(found),
        retry=route.retry,
        deadline_s=route.deadline_s,
        operator_deadline_s=route.deadline_s,
        ruled_out=tuple(search.ruled_out),
        rule=rule,
        error_fallback=_error_fallbacks(search, route)
        if route.error_fallbacks
        else _no_error_fallback,
        hedging=route.hedging,
    )


def _names(candidates: Sequence[Candidate]) -> tuple[str, ...]:
    return tuple([candidate.name for candidate in candidates])


def _copy(
    route: Route, mirror: Mirror, request: Request, draw: float
) -> Candidate | UnmirrorableRequest | None:
    """The copy of a request that is drawn for one.

    The draw's later digits decide: the first ones have chosen who answers.
    """
    if draw * 2.0**20 % 1.0 >= mirror.share:
        return None
    try:
        return match_backends(
            route, (mirror.backend,), (1.0,), with_operator_values(route, request), []
        )[0]
    except InvalidRequest as exc:
        backend = mirror.backend
        return UnmirrorableRequest(
            name=display_name(backend, request),
            pattern=backend.name if backend.model == "*" else "",
            code=exc.code,
            reason=exc.message,
        )


def _error_fallbacks(
    search: CandidateSearch, route: Route
) -> Callable[[str], tuple[Candidate, ...]]:
    """The routes for a failure, worked out when it has happened."""

    def detour(code: str) -> tuple[Candidate, ...]:
        found: list[Candidate] = []
        at = replace(search.facts, now=now())
        later = CandidateSearch(search.table, search.request, search.shape, at, [])
        later.arm_backends = search.arm_backends
        meant = meanings(code)
        for one in route.error_fallbacks:
            if meant.isdisjoint(one.codes):
                continue
            for name in one.routes:
                other = search.table.routes[name]
                try:
                    able = later.ordered(other, matching_rule(other, search.request, at))
                except InvalidRequest:
                    continue
                found += able
        if none_in_time(found, route.retry, route.deadline_s, at.now):
            return ()
        return tuple(found)

    return detour


def _deadline(route: Route, request: Request, timeout_s: float) -> float:
    """The request's own, where that is shorter; an answer that a timeout only cuts gets longer."""
    cut = isinstance(request, CompletionRequest) and request.error_behavior == "truncate"
    return min(route.deadline_s, timeout_s + (CUT_GRACE_S if cut else 0.0))


def _drop_unavailable(plan: Plan, now: float) -> Plan:
    """The healthy first; the spared ones are asked when all others have been.

    Raises Unavailable where no backend can be tried in time.
    """
    able = plan.candidates
    welcome = tuple([one for one in able if one.breaker.is_preferred(now)])
    if len(welcome) == len(able):
        return plan
    spared = [one for one in able if one not in welcome and one.breaker.is_available(now)]
    healthy = (*welcome, *spared)
    ill = tuple([one for one in able if not one.breaker.is_available(now)])
    reasons = [(one.name, why_unavailable(one, now)) for one in ill]
    if not healthy and none_in_time(ill, plan.retry, plan.deadline_s, now):
        raise no_backend_available(ill, now)
    return replace(
        plan,
        candidates=healthy,
        names=_names(healthy or ill),
        unavailable=ill,
        ruled_out=(*plan.ruled_out, *reasons),
    )


def why_unavailable(candidate: Candidate, now: float) -> str:
    """Why it is not asked like any other: its cooldown, or its breaker."""
    breaker = candidate.breaker
    if breaker.cooling_down(now):
        return f"rate-limited, available in {ceil(breaker.cooldown_left(now))} s"
    return f"breaker {breaker.state(now)}"


def no_backend_available(ill: Sequence[Candidate], now: float) -> Unavailable:
    """No backend can be tried in time. Its retry_after is at least a second.

    A 429 where a rate limit is all that is wrong with each of them.
    """
    wait = min(one.breaker.available_in(now) for one in ill)
    names = ", ".join(f"{one.name}: {why_unavailable(one, now)}" for one in ill)
    kind = RateLimited if all(one.breaker.only_rate_limited(now) for one in ill) else Unavailable
    return kind(f"no backend is available ({names})", retry_after=max(wait, 1.0))
