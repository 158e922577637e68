"""Admit a request under all limits and budgets that apply to it, or under none."""

from time import monotonic_ns
from typing import Final

from strowger_gateway.gateway.assembly.gateway import Gateway
from strowger_gateway.gateway.assembly.runtime import Runtime
from strowger_gateway.gateway.governance.budgets.by_place import PlaceRules
from strowger_gateway.gateway.governance.budgets.ledger import Reservation
from strowger_gateway.gateway.governance.limits.estimate import (
    chat_tokens,
    expected_tokens,
    requested_tier,
)
from strowger_gateway.gateway.governance.limits.headers import admitted_headers
from strowger_gateway.gateway.governance.limits.ledger import Accounts, Hold
from strowger_gateway.gateway.http.budgeted import find_money
from strowger_gateway.gateway.http.limited import find_room
from strowger_gateway.gateway.routing.planning.route import Route
from strowger_gateway.gateway.routing.request_record import RequestRecord
from strowger_gateway.gateway.server.asgi.response import ResponseWriter
from strowger_gateway.gateway.surfaces.hot_route import HotRoute
from strowger_gateway.schemas.requests import Request

NO_HOLD: Final = Hold(Accounts(()), 0, ())
"""Of a request that no limit applies to."""


def reserve_now(
    gateway: Gateway,
    runtime: Runtime,
    record: RequestRecord,
    request: Request,
    route: Route,
    response: ResponseWriter,
    at_route: HotRoute,
) -> Hold | None:
    """Reserve a request under every limit and budget, and show its client what remains.

    Return what the limits hold, to be settled when the request has ended; `None`, and nothing is
    reserved, if one lacks room here. What budgets hold is settled when the request is recorded.

    at_route: the path; one that only counts tokens reserves none, and no money.
    Raises InvalidRequest if a rule needs the end user, and the request names none or a wrong one.
    """
    if gateway.end_users.any:
        record.end_user = gateway.end_users.find(record, request, response.exchange.fields)
    place = (
        record.caller,
        route.name,
        request.model,
        record.team,
        record.user,
        record.end_user,
        record.plan,
    )
    rules = gateway.by_place.known.get(place)
    if rules is None or rules.costs is not runtime.costs:
        rules = gateway.by_place.find(place, route, runtime.costs)
    tokens = chat_tokens(request) if rules.simple and not at_route.counts else None
    if tokens is None or gateway.limits.queue.waiting:
        return _reserve_any(gateway, record, request, route, response, rules, at_route)
    prompt, answer = tokens
    needed, leases = prompt + answer, rules.leases
    if needed > rules.most:
        return _reserve_any(gateway, record, request, route, response, rules, at_route)
    if leases is not None:
        nanos = -(-(prompt * rules.input + answer * rules.output) // rules.unit)
        money, counted = leases.money, leases.tokens
        if money.room < nanos or counted.room < needed:
            return _reserve_any(gateway, record, request, route, response, rules, at_route)
        money.room -= nanos
        counted.room -= needed
        gateway.budgets.holds[record.request_id] = Reservation(leases, nanos, needed)
    accounts = rules.accounts
    if accounts is None:
        return NO_HOLD
    if accounts.leased or at_route.surface.name == "anthropic":
        hold = accounts.reserve(needed, monotonic_ns())
        if hold is not None:
            anthropic = at_route.surface.name == "anthropic"
            admitted_headers(accounts, response.own_headers, anthropic)
    else:
        hold = accounts.reserve(needed, monotonic_ns(), response.own_headers)
    if hold is None and leases is not None:
        gateway.budgets.holds.pop(record.request_id).settle(None)
    return hold


def _reserve_any(
    gateway: Gateway,
    record: RequestRecord,
    request: Request,
    route: Route,
    response: ResponseWriter,
    rules: PlaceRules,
    at_route: HotRoute,
) -> Hold | None:
    """The same for a request of any kind, with all that may apply to it."""
    accounts, leases = rules.accounts, None if at_route.counts else rules.leases
    needed, reservation = 0, None
    if leases is not None or (accounts is not None and accounts.tokens and not at_route.counts):
        tokens = expected_tokens(request, route)
        if leases is not None:
            cost = rules.costs.of(route, request.model, tokens, requested_tier(request))
            reservation = None if cost.unpriced and leases.strict else leases.reserve(cost)
            if reservation is None:
                return None
        if accounts is not None:
            needed = tokens.prompt + tokens.answer
            if needed > accounts.least:
                needed = tokens.within(accounts.least)
    hold = NO_HOLD
    if accounts is not None:
        waiting = gateway.limits.queue.waiting
        found = None if waiting else accounts.reserve(needed, monotonic_ns())
        if found is None:
            if reservation is not None:
                reservation.settle(None)
            return None
        hold = found
        admitted_headers(accounts, response.own_headers, at_route.surface.name == "anthropic")
    if reservation is not None:
        gateway.budgets.holds[record.request_id] = reservation
    return hold


async def reserve(
    gateway: Gateway,
    runtime: Runtime,
    record: RequestRecord,
    request: Request,
    route: Route,
    response: ResponseWriter,
    at_route: HotRoute,
) -> tuple[Hold, Request, Route]:
    """The same for a request that may have to wait, or to be refused.

    The request and its route are others if a budget that is used up sends it to a cheaper model.

    Raises LimitExceeded, BudgetExceeded, PriceUnknown, and ClientGone if the client leaves while
    the request waits; then nothing is reserved, but a request that a budget refuses has counted.
    """
    limits, hold = gateway.limits, NO_HOLD
    place = (
        record.caller,
        route.name,
        request.model,
        record.team,
        record.user,
        record.end_user,
        record.plan,
    )
    accounts = limits.of(place) if limits.any else None
    if accounts is not None:
        needed = 0
        if accounts.tokens and not at_route.counts:
            needed = expected_tokens(request, route).within(accounts.least)
        hold = await find_room(limits, accounts, needed, record, response)
        admitted_headers(accounts, response.own_headers, at_route.surface.name == "anthropic")
    if not gateway.budgets.any or at_route.counts:
        return hold, request, route
    held: Hold | None = hold
    try:
        request, route = await find_money(gateway, runtime, record, route, response)
        held = None
    finally:
        if held is not None:
            held.settle(0, monotonic_ns())
    return hold, request, route
