"""Compute where a request would be routed over all random draws, with the reasons."""

from collections.abc import Collection, Iterator, Mapping

import msgspec
from msgspec import Struct

from strowger_gateway.adapters.capabilities import sent_as, unsupported
from strowger_gateway.gateway.console.explain.compacted import compaction_words
from strowger_gateway.gateway.console.explain.experiment_view import explained_experiment
from strowger_gateway.gateway.console.explain.explanation import (
    Bounds,
    ExplainedCandidate,
    ExplainedErrorFallback,
    ExplainedMirror,
    ExplainedRule,
    Explanation,
    Found,
    Reason,
    RuledOut,
    refusal,
)
from strowger_gateway.gateway.console.explain.picker_headers import picker_headers
from strowger_gateway.gateway.console.explain.policy_reasons import policy_reason
from strowger_gateway.gateway.console.explain.simulated_outage import (
    is_simulated_outage,
    with_outage,
)
from strowger_gateway.gateway.governance.access.auth import EVERYONE, Caller, check_model
from strowger_gateway.gateway.governance.access.priority import LOWERED, with_allowed_priority
from strowger_gateway.gateway.routing.backend_status import describe, status_of
from strowger_gateway.gateway.routing.planning.candidate import Candidate, place_of
from strowger_gateway.gateway.routing.planning.capability_match import (
    display_name,
    match_backends,
    may_drop,
    translated_for,
    with_required,
)
from strowger_gateway.gateway.routing.planning.enrolment import Arm
from strowger_gateway.gateway.routing.planning.model_limits import why_over_limits
from strowger_gateway.gateway.routing.planning.plan import Plan
from strowger_gateway.gateway.routing.planning.planner import Planner
from strowger_gateway.gateway.routing.planning.request_defaults import with_values
from strowger_gateway.gateway.routing.planning.request_facts import RequestFacts
from strowger_gateway.gateway.routing.planning.route import Backend, Route
from strowger_gateway.gateway.routing.planning.when_rules import describe as conditions
from strowger_gateway.gateway.routing.planning.when_rules import unmet_conditions
from strowger_gateway.gateway.surfaces.routes import ParsedRequest
from strowger_gateway.schemas.errors import GatewayError, InvalidRequest, Unavailable
from strowger_gateway.schemas.fields import extra_fields, field_value, sent_fields, task_of
from strowger_gateway.schemas.requests import Request
from strowger_gateway.schemas.tasks.task import Unsampled

DRAWS = 1800
"""Even steps through [0, 1), so that halves to sixths, tenths and whole percents are exact."""

_ARM = " "
"""Key for an experiment's arms in place of a route name; no route name is blank."""


class _Group(Struct, frozen=True, kw_only=True, eq=False):
    """The candidates of one route in their likeliest order, with how often each is first.

    arms: the experiment's arms by `id` of their backend; one of them is tried before the others.
    """

    route: Route
    arms: Mapping[int, Arm]
    members: list[tuple[Candidate, float]]


def described(
    parsed: ParsedRequest, down: Collection[str], caller: Caller = EVERYONE
) -> Explanation:
    """Return what is known of a request before its route is found."""
    request = parsed.request
    return Explanation(
        path=parsed.path,
        surface=parsed.surface,
        task=task_of(request),
        model=request.model,
        stream=not isinstance(request, Unsampled) and request.stream,
        key=caller.name,
        team=caller.team,
        plan=caller.plan,
        down=tuple(down),
        compaction=compaction_words(request),
    )


def explain(
    planner: Planner,
    parsed: ParsedRequest,
    facts: RequestFacts,
    caller: Caller,
    *,
    down: Collection[str] = (),
) -> Explanation:
    """Explain how a request would be planned, without changing anything.

    A request that the gateway would reject raises nothing; `refused` holds the error.
    down: see `gateway/console/explain/simulated_outage.py`.
    """
    request = with_allowed_priority(parsed.request, caller)
    lowered = () if request is parsed.request else (LOWERED,)
    seen, planner = described(parsed, down, caller), with_outage(planner, down, facts.now)
    try:
        route = planner.table.find(request.model)
    except GatewayError as exc:
        return msgspec.structs.replace(seen, refused=refusal(exc))
    seen = _with_route(seen, planner, route, request, facts)
    try:
        check_model(caller, request.model, route.name)
        planned, groups = _planned(planner, route, request, facts)
    except (InvalidRequest, Unavailable) as exc:
        ruled_out = tuple(_ruled_out(planner, route, seen.rule, [], request, facts))
        return msgspec.structs.replace(seen, ruled_out=ruled_out, refused=refusal(exc))
    except GatewayError as exc:
        return msgspec.structs.replace(seen, refused=refusal(exc))
    return msgspec.structs.replace(
        seen,
        candidates=tuple(
            _candidate(one, share, group, request, facts, caller, lowered)
            for group in groups
            for one, share in group.members
        ),
        ruled_out=tuple(_ruled_out(planner, route, seen.rule, groups, request, facts)),
        fallback_by_error=_error_fallbacks(route, planned),
        bounds=Bounds(
            attempts=planned.retry.attempts,
            deadline_s=planned.ends(0.0, stream=seen.stream),
            retry_on=planned.retry.on,
            backoff_s=planned.retry.backoff_s,
            max_backoff_s=planned.retry.max_backoff_s,
            hedge_after_s=None if planned.hedging is None else planned.hedging.after_s,
            stream_recovery=route.stream_recovery,
        ),
    )


def _with_route(
    seen: Explanation, planner: Planner, route: Route, request: Request, facts: RequestFacts
) -> Explanation:
    found: Found = "wildcard"
    if request.model in planner.table.aliases:
        found = "alias"
    elif request.model in planner.table.routes:
        found = "exact"
    rules: list[ExplainedRule] = []
    decides: int | None = None
    for place, rule in enumerate(route.rules):
        faults = unmet_conditions(rule.when, request, facts) if decides is None else ()
        rules.append(
            ExplainedRule(
                when=conditions(rule.when),
                backends=tuple(dict.fromkeys(backend.name for backend in rule.backends)),
                holds=None if decides is not None else not faults,
                unmet=faults,
            )
        )
        if decides is None and not faults:
            decides = place
    return msgspec.structs.replace(
        seen,
        route=route.name,
        found=found,
        policy=route.policy.name,
        rules=tuple(rules),
        rule=decides,
        experiment=explained_experiment(planner, route, request, facts),
        mirror=None
        if route.mirror is None
        else ExplainedMirror(
            backend=route.mirror.backend.name,
            share=route.mirror.share,
            unsupported_reason=_unsupported_reason(route, route.mirror.backend, request),
        ),
        fallback=route.fallback,
    )


def _unsupported_reason(route: Route, mirror: Backend, request: Request) -> str:
    """Why the request cannot be mirrored to that backend; "" if it can."""
    try:
        match_backends(route, (mirror,), (1.0,), route.valued(request), [])
    except InvalidRequest as exc:
        return exc.message
    return ""


def _planned(
    planner: Planner, route: Route, request: Request, facts: RequestFacts
) -> tuple[Plan, list[_Group]]:
    """One plan, and the candidates over all draws."""
    table = planner.table
    homes = {
        id(backend): one.name
        for one in table.routes.values()
        for backend, _ in _all_of(planner, one)
    }
    first = _plan(planner, route, request, facts)
    arms = _arms(planner, route, request, facts)
    experiment = planner.experiments.get(route.name)
    drawn = bool(arms) and experiment is not None and experiment.by == "request"
    steps = DRAWS if drawn or len(first.candidates or first.unavailable) > 1 else 1
    orders = [
        _plan(planner, route, request, _drawn(facts, (step + 0.5) / DRAWS)) for step in range(steps)
    ]
    firsts: dict[str, int] = {}
    places: dict[str, int] = {}
    known: dict[str, dict[str, Candidate]] = {}
    for one in orders:
        placed: set[str] = set()
        for place, candidate in enumerate(one.candidates or one.unavailable):
            own = homes.get(id(candidate.backend), route.name)
            home = _ARM if id(candidate.backend) in arms else own
            key = f"{home}: {place_of(candidate)}"
            known.setdefault(home, {}).setdefault(key, candidate)
            places[key] = places.get(key, 0) + place
            if home not in placed:
                placed.add(home)
                firsts[key] = firsts.get(key, 0) + 1
    groups = [
        _Group(
            route=route if home == _ARM else table.routes[home],
            arms=arms if home == _ARM else {},
            members=[
                (members[key], firsts.get(key, 0) / len(orders))
                for key in sorted(members, key=places.__getitem__)
            ],
        )
        for home, members in known.items()
    ]
    return first, groups


def _plan(planner: Planner, route: Route, request: Request, facts: RequestFacts) -> Plan:
    return planner.plan(route, request, facts, planner.enrol(route, request, facts))


def _error_fallbacks(route: Route, planned: Plan) -> tuple[ExplainedErrorFallback, ...]:
    codes = sorted(frozenset[str]().union(*(one.codes for one in route.error_fallbacks)))
    return tuple(
        ExplainedErrorFallback(
            code=code,
            models=tuple(
                name for one in route.error_fallbacks if code in one.codes for name in one.routes
            ),
            backends=tuple(dict.fromkeys(one.name for one in planned.error_fallback(code))),
        )
        for code in codes
    )


def _arms(planner: Planner, route: Route, request: Request, facts: RequestFacts) -> dict[int, Arm]:
    """Arms by `id` of their backend, if an arm of the experiment is tried first; else empty."""
    enrolment = planner.enrol(route, request, facts)
    if enrolment is None or enrolment.arm is None:
        return {}
    experiment = planner.experiments[route.name]
    one_arm = enrolment.participation.exclusion is not None or experiment.by != "request"
    arms = (enrolment.arm,) if one_arm else tuple(experiment.arms.values())
    return {id(arm.backend): arm for arm in arms}


def _drawn(facts: RequestFacts, draw: float) -> RequestFacts:
    """The facts of another request of the same kind, with this draw."""
    request_id = f"{facts.request_id} {draw}"
    return msgspec.structs.replace(facts, uniform_draw=draw, request_id=request_id)


def _all_of(planner: Planner, route: Route) -> Iterator[tuple[Backend, bool]]:
    """Yield each backend once; True if the route or its experiment lists it, not just a rule."""
    experiment = planner.experiments.get(route.name)
    arms = () if experiment is None else tuple(experiment.arms.values())
    own = {id(one): one for one in (*route.backends, *(arm.backend for arm in arms))}
    yield from ((backend, True) for backend in own.values())
    ruled = {id(one): one for rule in route.rules for one in rule.backends if id(one) not in own}
    yield from ((backend, False) for backend in ruled.values())


def _candidate(
    one: Candidate,
    share: float,
    group: _Group,
    request: Request,
    facts: RequestFacts,
    caller: Caller,
    lowered: tuple[str, ...],
) -> ExplainedCandidate:
    arm = group.arms.get(id(one.backend))
    operators = with_values(request, group.route.defaults, group.route.overrides)
    operators = operators if arm is None else arm.applied_to(operators)
    own, before = one.request or request, sent_fields(operators) | extra_fields(operators)
    after = sent_fields(own) | extra_fields(own)
    known, supports, task = one.backend.models.of(one.name), one.backend.supports, task_of(request)
    names = {field: sent_as(supports, task, field) for field in sent_fields(own)}
    translated = {field: name for field, name in sorted(names.items()) if name and name != field}
    said = {*one.dropped, *one.omitted, *(made.rpartition(":")[0] for made in one.repaired)}
    for field in sorted(before - after - said):
        translated[field] = ", ".join(sorted(after - before)) or "omitted: it has no effect"
    return ExplainedCandidate(
        backend=one.name,
        route=group.route.name,
        share=round(share, 4),
        why=f"variant {arm.name!r}"
        if arm is not None
        else policy_reason(one, [other for other, _ in group.members], group.route, request, facts),
        model=one.model,
        dropped=one.dropped,
        omitted_content=one.omitted,
        translated=translated,
        set=tuple(
            sorted(
                field
                for field in sent_fields(operators)
                if field_value(operators, field) != field_value(request, field)
            )
        )
        + (("system",) if arm is not None and arm.system else ()),
        defaulted=one.defaulted,
        repaired=(*lowered, *one.repaired),
        context=known.context,
        max_output=known.max_output,
        variant="" if arm is None else arm.name,
        health=status_of(one.backend, facts.now, one.breaker),
        replica="" if one.backend.replica is None else one.backend.replica.address,
        headers=picker_headers(one, request, facts, caller),
    )


def _ruled_out(
    planner: Planner,
    route: Route,
    rule: int | None,
    groups: list[_Group],
    request: Request,
    facts: RequestFacts,
) -> Iterator[RuledOut]:
    """Every backend of the route and its fallbacks that is not a candidate."""
    candidates = {id(one.backend) for group in groups for one, _ in group.members}
    experiment = planner.experiments.get(route.name)
    apart = experiment.arm_backends if experiment and rule is None else frozenset[str]()
    own_arm = _own_arm(planner, route, request, facts)
    for name in (route.name, *route.fallback):
        current = planner.table.routes[name]
        place = rule if current is route else _first_rule(current, request, facts)
        chosen = current.backends if place is None else current.rules[place].backends
        inside = {id(backend) for backend in chosen}
        for backend, own in _all_of(planner, current):
            if id(backend) in candidates:
                continue
            if backend.name in apart and backend is not own_arm:
                same = own_arm is not None and backend.name == own_arm.name
                what = "the variant's own backend" if same else "another variant's backend"
                reasons = [Reason(words=f"is {what}")]
            elif id(backend) not in inside and backend.name not in apart:
                words = (
                    f"`when` rule {place + 1} selects other backends" if place is not None else ""
                )
                reasons = [Reason(words=words if own and words else "is used by `when` rules only")]
            else:
                reasons = list(_reasons(backend, current, request, facts))
            yield RuledOut(backend=backend.place, route=name, reasons=tuple(reasons))


def _own_arm(
    planner: Planner, route: Route, request: Request, facts: RequestFacts
) -> Backend | None:
    """The backend of the variant that the request is assigned to."""
    enrolment = planner.enrol(route, request, facts)
    arm = None if enrolment is None else enrolment.arm
    return None if arm is None else arm.backend


def _first_rule(route: Route, request: Request, facts: RequestFacts) -> int | None:
    places = (
        at for at, rule in enumerate(route.rules) if not unmet_conditions(rule.when, request, facts)
    )
    return next(places, None)


def _reasons(
    backend: Backend, route: Route, request: Request, facts: RequestFacts
) -> Iterator[Reason]:
    """Each field that the backend cannot honour and that must not be dropped; then its health."""
    translated = translated_for(route.valued(request), backend)
    translated, _ = with_required(translated, backend, strictly=route.require)
    faults = [
        fault
        for fault in unsupported(translated, backend.supports)
        if route.require or not may_drop(translated, fault)
    ]
    for fault in faults:
        yield Reason(field=fault.field, words=fault.reason)
    over = why_over_limits(backend, display_name(backend, request), request, route.require)
    if over:
        yield Reason(words=over)
    if is_simulated_outage(backend):
        yield Reason(words="is assumed down")
    elif not (breaker := backend.breaker_for(request.model)).is_available(facts.now):
        yield Reason(words=describe(status_of(backend, facts.now, breaker)))
    elif not faults and not over:
        yield Reason(words="is not a candidate for this request")
