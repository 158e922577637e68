"""Admit a request under all limits and budgets that apply to it, or under none."""

from time import monotonic_ns
from typing import Final

from gateway.asgi.exchange import HotExchange
from gateway.asgi.response import ResponseWriter
from gateway.http.budgeted import find_money
from gateway.http.limited import find_room
from gateway.limits.estimate import expected_tokens
from gateway.limits.headers import admitted_headers
from gateway.limits.ledger import Accounts, Hold
from gateway.routing.planning.route import Route
from gateway.routing.request_record import RequestRecord
from gateway.runtime import Runtime
from gateway.state import Gateway
from gateway.surfaces.hot_route import HotRoute
from schemas.requests import Request

NO_HOLD: Final = Hold(Accounts(()), 0, ())
"""Of a request that no limit applies to."""


def reserve_at_once(
    gateway: Gateway,
    runtime: Runtime,
    record: RequestRecord,
    route: Route,
    response: ResponseWriter,
    at_route: HotRoute,
    exchange: HotExchange,
) -> Hold | None:
    """Reserve `response.request` under every limit and budget, and show its client what remains.

    Return what the limits hold, to be settled when the request has ended; `None`, and nothing is
    reserved, if one lacks room here. What budgets hold is settled when the request is recorded.

    at_route: the path; one that only counts tokens reserves none, and no money.

    Raises InvalidRequest if a rule needs the end user, and the request names none or a wrong one.
    """
    request = response.request
    assert request is not None
    if gateway.end_users.any:
        record.end_user = gateway.end_users.find(record, request, exchange.fields)
    limits, budgets, counts = gateway.limits, gateway.budgets, at_route.counts
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
    purses = budgets.of(place) if budgets.any and not counts else None
    needed, reservation = 0, None
    if purses is not None or (accounts is not None and accounts.tokens and not counts):
        tokens = expected_tokens(request, route)
        if purses is not None:
            cost = runtime.costs.of(route, request.model, tokens)
            reservation = None if cost.unpriced and purses.strict else purses.reserve(cost)
            if reservation is None:
                return None
        if accounts is not None:
            needed = tokens.prompt + tokens.answer
            if needed > accounts.least:
                needed = tokens.within(accounts.least)
    hold = NO_HOLD
    if accounts is not None:
        found = None if limits.queue.waiting else accounts.reserve(needed, monotonic_ns())
        if found is None:
            if reservation is not None:
                reservation.settle(None)
            return None
        hold = found
        admitted_headers(accounts, response.own_headers(), at_route.surface.name == "anthropic")
    if reservation is not None:
        budgets.holds[record.request_id] = reservation
    return hold


async def reserve(
    gateway: Gateway,
    runtime: Runtime,
    record: RequestRecord,
    request: Request,
    route: Route,
    response: ResponseWriter,
    at_route: HotRoute,
    exchange: HotExchange,
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
        hold = await find_room(limits, accounts, needed, record, response, exchange)
        admitted_headers(accounts, response.own_headers(), at_route.surface.name == "anthropic")
    if not gateway.budgets.any or at_route.counts:
        return hold, request, route
    held: Hold | None = hold
    try:
        request, route = await find_money(gateway, runtime, record, route, response, exchange)
        held = None
    finally:
        if held is not None:
            held.settle(0, monotonic_ns())
    return hold, request, route
