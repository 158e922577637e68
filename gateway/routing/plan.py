"""From a request to the ordered backends that may answer it."""

from collections.abc import Callable, Sequence

import msgspec
from msgspec import Struct, UnsetType

from gateway.clock import now
from gateway.config.model import Retry as RetryRule
from gateway.routing.able import able, named, valued
from gateway.routing.candidate import Candidate, Uncopied
from gateway.routing.facts import Facts
from gateway.routing.fitting import keep, shape_of
from gateway.routing.route import Hedging, Mirror, Route, RouteTable
from gateway.routing.search import Search, rule_of
from gateway.routing.trial import Enrolment
from schemas.errors import InvalidRequest, Unavailable
from schemas.requests import CompletionRequest, Request

CUT_GRACE_S = 2.0
"""For a backend to end, by itself, an answer whose time is over (`error_behavior: truncate`)."""


def _nowhere(code: str) -> "tuple[Candidate, ...]":
    """No detour."""
    return ()


class Plan(Struct, frozen=True, kw_only=True, eq=False, gc=False):
    """Who may answer, first choice first, and within which bounds. Times in seconds.

    request:   as the client asked; a candidate may get it changed.
    deadline_s: over everything: the operator's, or the client's where that is shorter.
    patience_s: the operator's.
    ruled_out: backends that may not, each with the reason, for logs and `strowger explain`.
    rule:      the place of the `when` rule that matched, from 0; `None` where none did.
    enrolment: what the model's experiment means to this request; `None` without one.
    detour:    by the code of a failure, who may answer in place of those that are left.
    mirror:    who gets a copy afterwards, or should and cannot.
    """

    route: str
    request: Request
    candidates: tuple[Candidate, ...]
    retry: RetryRule
    deadline_s: float
    patience_s: float
    ruled_out: tuple[tuple[str, str], ...] = ()
    rule: int | None = None
    enrolment: Enrolment | None = None
    detour: Callable[[str], tuple[Candidate, ...]] = _nowhere
    hedging: Hedging | None = None
    mirror: Candidate | Uncopied | None = None


def enrol(route: Route, request: Request, facts: Facts) -> Enrolment | None:
    """The request's part in the model's experiment: one whom a `when` rule takes has none."""
    trial = route.trial
    if trial is None:
        return None
    if route.rules and rule_of(route, request, facts) is not None:
        return trial.ruled()
    return trial.enrol(request, facts)


def plan(
    table: RouteTable,
    route: Route,
    request: Request,
    facts: Facts,
    enrolment: Enrolment | None = None,
) -> Plan:
    """The candidates for one request on its route.

    enrolment: as `enrol` said, where the caller has asked it already. An arm's backend comes
    first, then those of the route and of its fallbacks that are no arm's.

    Raises InvalidRequest naming the field that no backend can honour; Unavailable with
    retry_after when every backend rests, as it asked for, or is being probed.
    """
    ruled_out: list[tuple[str, str]] = []
    rule = rule_of(route, request, facts) if route.rules else None
    enrolment = enrolment or enrol(route, request, facts)
    arm = None if enrolment is None else enrolment.arm
    shape = shape_of(request)
    known = route.name, "" if arm is None else arm.name, shape
    found: Sequence[Candidate] | None = table.fixed.get(known)
    search: Search | None = None
    if found is None or route.detours:
        search = Search(table, request, shape, facts, ruled_out)
        found = search.all(route, rule, arm)
        if search.fixed and shape is not None:
            keep(table.fixed, known, tuple(found))
    timeout_s = request.timeout_s
    return Plan(
        route=route.name,
        request=request,
        candidates=_healthy(found, facts.now, ruled_out),
        retry=route.retry,
        deadline_s=route.deadline_s
        if isinstance(timeout_s, UnsetType)
        else _deadline(route, request, timeout_s),
        patience_s=route.deadline_s,
        ruled_out=tuple(ruled_out),
        rule=rule,
        enrolment=enrolment,
        detour=_nowhere if search is None else _detours(search, route),
        hedging=route.hedging,
        mirror=None if route.mirror is None else _copy(route, route.mirror, request, facts.draw),
    )


def _copy(
    route: Route, mirror: Mirror, request: Request, draw: float
) -> Candidate | Uncopied | None:
    """The copy of a request that is drawn for one.

    The draw's later digits decide: the first ones have chosen who answers.
    """
    if draw * 2.0**20 % 1.0 >= mirror.share:
        return None
    try:
        return able(route, (mirror.backend,), (1.0,), valued(route, request), [])[0]
    except InvalidRequest as exc:
        backend = mirror.backend
        return Uncopied(
            name=named(backend, request),
            pattern=backend.name if backend.model == "*" else "",
            code=exc.code,
            reason=exc.message,
        )


def _detours(search: Search, route: Route) -> Callable[[str], tuple[Candidate, ...]]:
    """The routes for a failure, worked out when it has happened."""

    def detour(code: str) -> tuple[Candidate, ...]:
        found: list[Candidate] = []
        at = msgspec.structs.replace(search.facts, now=now())
        later = Search(search.table, search.request, search.shape, at, [])
        later.apart = search.apart
        for one in route.detours:
            if code not in one.codes:
                continue
            for name in one.routes:
                other = search.table.routes[name]
                try:
                    able = later.ordered(other, rule_of(other, search.request, at))
                except InvalidRequest:
                    continue
                found += [one for one in able if one.backend.breaker.allows(at.now)]
        return tuple(found)

    return detour


def _deadline(route: Route, request: Request, timeout_s: float) -> float:
    """The request's own, where that is shorter; an answer that a timeout only cuts gets longer."""
    cut = isinstance(request, CompletionRequest) and request.error_behavior == "truncate"
    return min(route.deadline_s, timeout_s + (CUT_GRACE_S if cut else 0.0))


def _healthy(
    able: Sequence[Candidate], now: float, ruled_out: list[tuple[str, str]]
) -> tuple[Candidate, ...]:
    """Those that may be asked; the spared ones are asked when all others have been."""
    for candidate in able:
        if now < candidate.backend.breaker.trouble_until:
            break
    else:
        return tuple(able)
    welcome = tuple([one for one in able if one.backend.breaker.welcomes(now)])
    if len(welcome) == len(able):
        return welcome
    spared = [one for one in able if one not in welcome and one.backend.breaker.allows(now)]
    healthy = (*welcome, *spared)
    for candidate in able:
        breaker = candidate.backend.breaker
        if not breaker.allows(now):
            why = (
                "resting, as it asked for"
                if breaker.resting(now)
                else f"breaker {breaker.state(now)}"
            )
            ruled_out.append((candidate.name, why))
    if healthy:
        return healthy
    idle = [
        candidate
        for candidate in able
        if not candidate.backend.breaker.resting(now) and not candidate.backend.breaker.probing
    ]
    if idle:
        return (min(idle, key=lambda candidate: candidate.backend.breaker.last_failure),)
    wait = min(candidate.backend.breaker.available_in(now) for candidate in able)
    names = ", ".join(f"{name}: {why}" for name, why in ruled_out)
    raise Unavailable(f"no backend can answer now ({names})", retry_after=max(wait, 1.0))
