"""Find room for a request that its budgets lack room for, a cheaper model for it, or refuse it."""

import time
from typing import Final
from urllib.parse import quote

from msgspec.structs import replace

from strowger_gateway.gateway.assembly.gateway import Gateway
from strowger_gateway.gateway.assembly.runtime import Runtime
from strowger_gateway.gateway.governance.budgets.ledger import (
    BudgetLeases,
    Cost,
    Reservation,
    Shortfall,
)
from strowger_gateway.gateway.governance.budgets.refusals import (
    budget_exceeded,
    cheaper_model,
    lasting,
    price_unknown,
)
from strowger_gateway.gateway.governance.limits.estimate import expected_tokens, requested_tier
from strowger_gateway.gateway.routing.planning.route import Route
from strowger_gateway.gateway.routing.request_record import RequestRecord
from strowger_gateway.gateway.server.asgi.exchange import HotExchange
from strowger_gateway.gateway.server.asgi.response import DisconnectGuard, ResponseWriter
from strowger_gateway.schemas.errors import BudgetExceeded
from strowger_gateway.schemas.requests import Request

SOON_S: Final = 60.0
"""A client may wait so long for a budget; `x-should-retry` advises against more."""


async def find_money(
    gateway: Gateway,
    runtime: Runtime,
    record: RequestRecord,
    route: Route,
    response: ResponseWriter,
) -> tuple[Request, Route]:
    """Reserve `response.request`, for which the leases lack room; return it and its route.

    They are others if a budget that is used up sends it to a cheaper model.

    Raises BudgetExceeded, PriceUnknown, ClientGone.
    """
    budgets, request = gateway.budgets, response.request
    assert request is not None
    moved = set[str]()
    while True:
        model = route.name if moved else request.model
        whose = record.team, record.user, record.end_user, record.plan
        place = record.caller, route.name, model, *whose
        leases = budgets.of(place)
        if leases is None:
            return request, route
        tier = requested_tier(request)
        cost = runtime.costs.of(route, request.model, expected_tokens(request, route), tier)
        if cost.unpriced and leases.strict:
            raise price_unknown(leases.strict, cost.unpriced)
        found = leases.reserve(cost) or await _find_room(gateway, leases, cost, response.exchange)
        if isinstance(found, Reservation):
            budgets.holds[record.request_id] = found
            return request, route
        record.budget, cheaper = cheaper_model(found, budgets.named)
        if not cheaper or cheaper in moved:
            raise _refuse(gateway, found, record, response)
        moved.add(cheaper)
        budgets.count_moved(record.budget)
        route, request = runtime.table.find(cheaper), replace(request, model=cheaper)
        record.route, response.request = route.name, request
        if runtime.config.server.expose_headers:
            headers = response.own_headers
            headers.append((b"x-gateway-budget", quote(record.budget).encode()))
            headers.append((b"x-gateway-budget-model", quote(cheaper, safe="/:@+").encode()))


async def _find_room(
    gateway: Gateway, leases: BudgetLeases, cost: Cost, exchange: HotExchange
) -> Reservation | tuple[Shortfall, ...]:
    """Reserve a request that the leases do not cover: settle what has ended, then ask for more."""
    gateway.log.flush()
    found = leases.reserve(cost)
    if found is not None:
        return found
    with DisconnectGuard(exchange):
        return await gateway.budgets.asker.ask(leases, cost)


def _refuse(
    gateway: Gateway, short: tuple[Shortfall, ...], record: RequestRecord, response: ResponseWriter
) -> BudgetExceeded:
    """Count a refusal by the budget that lasts longest, and say until when."""
    last = max(short, key=lasting)
    record.budget = last.budget
    gateway.budgets.count_refused(last.budget)
    budget = gateway.budgets.named[last.budget]
    error = budget_exceeded(budget, last, time.time())
    if error.retry_after is None or error.retry_after > SOON_S:
        response.own_headers.append((b"x-should-retry", b"false"))
    return error
