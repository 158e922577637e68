"""From a request to the ordered backends that may answer it."""

from collections.abc import Callable, Sequence

import msgspec
from msgspec import UNSET, Struct, UnsetType

from adapters.support import left_out, offered, unsupported
from gateway.clock import now
from gateway.config.model import Retry as RetryRule
from gateway.routing.facts import Facts, estimated_tokens, prefix_of, unit_of
from gateway.routing.policies import Key, Policy, Standing
from gateway.routing.prices import expected_cost
from gateway.routing.route import NOTHING, Backend, Hedging, Mirror, Route, RouteTable
from gateway.routing.rules import holds
from gateway.routing.trial import Arm, Enrolment
from gateway.routing.values import with_values
from schemas.equivalents import in_our_fields, reworded
from schemas.errors import InvalidRequest, Unavailable
from schemas.fields import task_of, without
from schemas.requests import CompletionRequest, EmbeddingsRequest, Request

CUT_GRACE_S = 2.0
"""For a backend to end, by itself, an answer whose time is over (`error_behavior: truncate`)."""


class Candidate(Struct, frozen=True, kw_only=True, eq=False):
    """A backend with the request it would get.

    name:    the backend's with the model that is asked for, where its own is a wildcard.
    dropped: fields that it cannot honour. left_out: what of the content it does not get to see.
    """

    backend: Backend
    name: str
    model: str
    request: Request
    weight: float
    dropped: tuple[str, ...] = ()
    left_out: tuple[str, ...] = ()

    @property
    def told(self) -> tuple[str, ...]:
        """What the client is told that this backend did not get."""
        return self.dropped + self.left_out


def _nowhere(code: str) -> "tuple[Candidate, ...]":
    """No detour."""
    return ()


class Plan(Struct, frozen=True, kw_only=True, eq=False):
    """Who may answer, first choice first, and within which bounds. Times in seconds.

    deadline_s: over everything: the operator's, or the client's where that is shorter.
    patience_s: the operator's.
    ruled_out: backends that may not, each with the reason, for logs and `strowger explain`.
    rule:      the place of the `when` rule that matched, from 0; `None` where none did.
    enrolment: what the model's experiment means to this request; `None` without one.
    detour:    by the code of a failure, who may answer in place of those that are left.
    mirror:    who gets a copy afterwards.
    """

    route: str
    candidates: tuple[Candidate, ...]
    retry: RetryRule
    deadline_s: float
    patience_s: float
    ruled_out: tuple[tuple[str, str], ...] = ()
    rule: int | None = None
    enrolment: Enrolment | None = None
    detour: Callable[[str], tuple[Candidate, ...]] = _nowhere
    hedging: Hedging | None = None
    mirror: Candidate | None = None


def enrol(route: Route, request: Request, facts: Facts) -> Enrolment | None:
    """The request's part in the model's experiment: one whom a `when` rule takes has none."""
    trial = route.trial
    if trial is None:
        return None
    if route.rules and _rule(route, request, facts) is not None:
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
    rule = _rule(route, request, facts)
    able: list[Candidate] = []
    refusal: InvalidRequest | None = None
    enrolment = enrolment or enrol(route, request, facts)
    apart: frozenset[str] = frozenset()
    if enrolment is not None and enrolment.arm is not None and route.trial is not None:
        apart = route.trial.apart
        try:
            able += _in_arm(route, enrolment.arm, request, ruled_out)
        except InvalidRequest as exc:
            refusal = exc
    for name in (route.name, *route.fallback):
        current = table.routes[name]
        place = rule if current is route else _rule(current, request, facts)
        try:
            able += _ordered(current, place, request, facts, ruled_out, apart)
        except InvalidRequest as exc:
            refusal = refusal or exc
    if not able:
        raise refusal or Unavailable(f"model {route.name!r} has no backend")
    return Plan(
        route=route.name,
        candidates=_healthy(able, facts.now, ruled_out),
        retry=route.retry,
        deadline_s=_deadline(route, request),
        patience_s=route.deadline_s,
        ruled_out=tuple(ruled_out),
        rule=rule,
        enrolment=enrolment,
        detour=_detours(table, route, request, facts, apart) if route.detours else _nowhere,
        hedging=route.hedging,
        mirror=None if route.mirror is None else _copy(route, route.mirror, request, facts.draw),
    )


def _copy(route: Route, mirror: Mirror, request: Request, draw: float) -> Candidate | None:
    """The copy of a request that is drawn for one, and that the backend has words for.

    The draw's later digits decide: the first ones have chosen who answers.
    """
    if draw * 2.0**20 % 1.0 >= mirror.share:
        return None
    try:
        return _able(route, (mirror.backend,), (1.0,), _valued(route, request), [])[0]
    except InvalidRequest:
        return None


def _rule(route: Route, request: Request, facts: Facts) -> int | None:
    """The place of the first rule that matches."""
    for index, rule in enumerate(route.rules):
        if holds(rule.when, request, facts):
            return index
    return None


def _detours(
    table: RouteTable, route: Route, request: Request, facts: Facts, apart: frozenset[str]
) -> Callable[[str], tuple[Candidate, ...]]:
    """The routes for a failure, worked out when it has happened."""

    def detour(code: str) -> tuple[Candidate, ...]:
        found: list[Candidate] = []
        ruled_out: list[tuple[str, str]] = []
        at = msgspec.structs.replace(facts, now=now())
        for one in route.detours:
            if code not in one.codes:
                continue
            for name in one.routes:
                other = table.routes[name]
                place = _rule(other, request, at)
                try:
                    able = _ordered(other, place, request, at, ruled_out, apart)
                except InvalidRequest:
                    continue
                found += [one for one in able if one.backend.breaker.allows(at.now)]
        return tuple(found)

    return detour


def _ordered(
    route: Route,
    place: int | None,
    request: Request,
    facts: Facts,
    ruled_out: list[tuple[str, str]],
    apart: frozenset[str],
) -> list[Candidate]:
    """The able backends, in the policy's order: the route's own, or those of its rule at `place`.

    apart: backends that may not be among them, for they are an experiment's arms.
    Raises InvalidRequest where none is able.
    """
    chosen = route if place is None else route.rules[place]
    backends, weights = chosen.backends, chosen.weights
    if apart:
        kept = [place for place, one in enumerate(backends) if _named(one, request) not in apart]
        if not kept:
            return []
        backends = tuple([backends[place] for place in kept])
        weights = tuple([weights[place] for place in kept])
    found = _able(route, backends, weights, _valued(route, request), ruled_out)
    if len(found) < 2:
        return found
    policy = route.policy
    standings = [standing(one, policy, facts) for one in found]
    key = _key(policy.key, route, request, facts)
    return [found[index] for index in policy.order(standings, facts.draw, key)]


def _in_arm(
    route: Route, arm: Arm, request: Request, ruled_out: list[tuple[str, str]]
) -> list[Candidate]:
    """The arm's backend, with what the arm sets. Raises InvalidRequest where it is not able."""
    changed = arm.changed(_valued(route, request))
    return _able(route, (arm.backend,), (1.0,), changed, ruled_out)


def standing(candidate: Candidate, policy: Policy, facts: Facts) -> Standing:
    """What the policy gets to know of it."""
    backend = candidate.backend
    if policy.plain:
        return Standing(name=candidate.name, weight=candidate.weight)
    request, price = candidate.request, backend.prices.of(candidate.name)
    generates = not isinstance(request, EmbeddingsRequest)
    bound = request.sampling.max_tokens if generates else 0
    return Standing(
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


def _key(kind: Key, route: Route, request: Request, facts: Facts) -> bytes:
    if kind == "unit":
        return unit_of(request, facts, route.sticky_by).encode("utf-8", "replace")
    return prefix_of(request, facts) if kind == "prefix" else b""


def _able(
    route: Route,
    backends: Sequence[Backend],
    weights: Sequence[float],
    request: Request,
    ruled_out: list[tuple[str, str]],
) -> list[Candidate]:
    """Those backends that honour every field sent; else all, without what they cannot."""
    candidates: list[Candidate] = []
    nearly: list[Candidate] = []
    lacking: list[tuple[Candidate, str]] = []
    asked = request
    for backend, weight in zip(backends, weights, strict=True):
        request = reworded_for(asked, backend)
        problems = unsupported(request, backend.supports)
        wild = backend.model == "*"
        candidate = Candidate(
            backend=backend,
            name=_named(backend, request),
            model=request.model if wild else backend.model,
            request=request,
            weight=weight,
            dropped=tuple([problem.field for problem in problems]) if problems else (),
            left_out=left_out(request, backend.supports),
        )
        if not problems:
            candidates.append(candidate)
            continue
        hard = [one for one in problems if route.require or one.field not in request.optional]
        if not hard:
            reduced = without(request, candidate.dropped)
            nearly.append(msgspec.structs.replace(candidate, request=reduced))
            continue
        reason = "; ".join(f"{problem.field} {problem.reason}" for problem in hard)
        ruled_out.append((backend.name, reason))
        lacking.append((candidate, reason))
    if candidates or nearly or not lacking:
        return candidates or nearly
    return _with_less(route, lacking)


def _named(backend: Backend, request: Request) -> str:
    """The backend's name with the model that is asked for, where its own is a wildcard."""
    return backend.name[:-1] + request.model if backend.model == "*" else backend.name


def _valued(route: Route, request: Request) -> Request:
    """The request with the operator's values for the model."""
    if route.defaults is NOTHING and route.overrides is NOTHING:
        return request
    return with_values(request, route.defaults, route.overrides)


def reworded_for(request: Request, backend: Backend) -> Request:
    """The request with those of its fields said otherwise that the backend knows otherwise."""
    if isinstance(request, EmbeddingsRequest):
        return request
    supports = backend.supports
    if request.extra and not supports.extra:
        task = task_of(request)
        if not request.extra.keys() <= supports.extra_fields.get(task, frozenset()):
            request = in_our_fields(request, offered(supports, task) or ())
    if request.sampling.do_sample is UNSET:
        return request
    return reworded(request, offered(supports, task_of(request)) or ())


def _deadline(route: Route, request: Request) -> float:
    """The request's own, where that is shorter; an answer that a timeout only cuts gets longer."""
    if isinstance(request.timeout_s, UnsetType):
        return route.deadline_s
    cut = isinstance(request, CompletionRequest) and request.error_behavior == "truncate"
    return min(route.deadline_s, request.timeout_s + (CUT_GRACE_S if cut else 0.0))


def _with_less(route: Route, lacking: list[tuple[Candidate, str]]) -> list[Candidate]:
    """What `on_unsupported` says of a request that no backend honours in full.

    Content cannot be left out of a request; a backend that lacks it is left out instead.
    """
    first, reason = lacking[0]
    hard = [
        field for field in first.dropped if route.require or field not in first.request.optional
    ]
    refusal = InvalidRequest(f"{first.backend.name}: {reason}", param=hard[0], code="unsupported")
    found: list[Candidate] = []
    if route.on_unsupported == "drop" and not route.require:
        for candidate, _ in lacking:
            try:
                reduced = without(candidate.request, candidate.dropped)
            except InvalidRequest as exc:
                refusal = exc
                continue
            found.append(msgspec.structs.replace(candidate, request=reduced))
    if not found:
        raise refusal
    return found


def _healthy(
    able: list[Candidate], now: float, ruled_out: list[tuple[str, str]]
) -> tuple[Candidate, ...]:
    """Those that may be asked; the spared ones are asked when all others have been."""
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
