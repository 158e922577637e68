"""Explain why a policy puts a candidate in its place."""

from collections.abc import Callable, Sequence

from msgspec import Struct

from strowger_gateway.gateway.routing.planning.candidate import Candidate
from strowger_gateway.gateway.routing.planning.candidate_search import stats_of
from strowger_gateway.gateway.routing.planning.policies import BackendStats
from strowger_gateway.gateway.routing.planning.request_facts import RequestFacts, prefix_of, unit_of
from strowger_gateway.gateway.routing.planning.route import Route
from strowger_gateway.gateway.routing.resilience.replica import Replica
from strowger_gateway.schemas.requests import Request


class RankedPlace(Struct, frozen=True, kw_only=True, eq=False):
    """What determines one candidate's place.

    weights: sum over all candidates of the route. listed: its position in the list, from 1.
    """

    own: BackendStats
    weights: float
    listed: int
    route: Route
    request: Request
    facts: RequestFacts


def policy_reason(
    one: Candidate, others: Sequence[Candidate], route: Route, request: Request, facts: RequestFacts
) -> str:
    """others: all candidates of the route, including this one."""
    if len(others) == 1:
        return "only candidate"
    if one.backend.replica is not None:
        return _replica(one, one.backend.replica, route, facts)
    if one.weight <= 0 and route.policy.name != "in_order":
        return "weight 0: tried last"
    names = [backend.name for backend in route.backends]
    place = RankedPlace(
        own=stats_of(one, request, route.policy, facts),
        weights=sum(other.weight for other in others),
        listed=names.index(one.backend.name) + 1 if one.backend.name in names else len(names) + 1,
        route=route,
        request=request,
        facts=facts,
    )
    return _WHY[route.policy.name](place)


def _replica(one: Candidate, replica: Replica, route: Route, facts: RequestFacts) -> str:
    """Replicas share by load, or by the key of the policy."""
    words = [f"replica: {one.backend.load.busy} in flight"]
    if replica.others:
        words.append(f"about {replica.others:.0f} of other clients")
    if (share := replica.share(facts.now)) < 1:
        words.append(f"started recently, {100 * share:.0f} % of a share")
    if route.policy.key:
        words.append(f"ordered by {route.policy.name.replace('_', ' ')}")
    return ", ".join(words)


def _weight(place: RankedPlace) -> str:
    return f"weight {place.own.weight:g} of {place.weights:g}"


def _in_order(place: RankedPlace) -> str:
    return f"position {place.listed} in the list"


def _least_busy(place: RankedPlace) -> str:
    return f"{place.own.busy} in flight, weight {place.own.weight:g}"


def _lowest_latency(place: RankedPlace) -> str:
    own = place.own
    measured = "no latency measured" if own.latency_s is None else f"{own.latency_s * 1e3:.0f} ms"
    return f"{measured}, {own.busy} in flight, {_weight(place)}"


def _lowest_cost(place: RankedPlace) -> str:
    cost = place.own.cost_usd
    return "no price" if cost is None else f"about ${cost:.6g}"


def _sticky(place: RankedPlace) -> str:
    by = place.route.sticky_by
    unit = unit_of(place.request, place.facts, by)
    what = by.replace("_", " ").replace("header:", "header ")
    return f"by {what} {unit!r}" if unit else f"no {what} in the request: {_weight(place)}"


def _prefix(place: RankedPlace) -> str:
    beginning = prefix_of(place.request, place.facts).hex()[:8]
    return f"by prompt prefix ({beginning}), {place.own.busy} in flight"


_WHY: dict[str, Callable[[RankedPlace], str]] = {
    "weighted": _weight,
    "in_order": _in_order,
    "least_busy": _least_busy,
    "lowest_latency": _lowest_latency,
    "lowest_cost": _lowest_cost,
    "sticky": _sticky,
    "prefix_affinity": _prefix,
}
