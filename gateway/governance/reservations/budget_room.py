"""Find room for a request that its budgets lack room for, a cheaper model for it, or refuse it."""

import time
from collections.abc import Callable
from typing import Final
from urllib.parse import quote

from msgspec.structs import replace

from strowger_gateway.gateway.governance.budgets.budgets import Budgets
from strowger_gateway.gateway.governance.budgets.costs import RouteCosts
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
from strowger_gateway.gateway.server.asgi.exchange import HotExchange
from strowger_gateway.gateway.server.asgi.response import DisconnectGuard
from strowger_gateway.gateway.stages.request_context import RequestContext
from strowger_gateway.schemas.errors import BudgetExceeded

SOON_S: Final = 60.0
"""A client may wait so long for a budget; `x-should-retry` advises against more."""


async def find_money(
    budgets: Budgets, costs: RouteCosts, flush: Callable[[], None], request: RequestContext
) -> None:
    """Reserve a request for which the leases lack room.

    It becomes another one, of another route, if a budget that is used up sends it to a cheaper
    model. flush: settles what requests that have ended have cost.

    Raises BudgetExceeded, PriceUnknown, ClientGone.
    """
    record, moved = request.record, set[str]()
    sent, route = request.request, request.route
    assert sent is not None
    assert route is not None
    while True:
        model = route.name if moved else sent.model
        whose = record.team, record.user, record.end_user, record.plan
        leases = budgets.of((record.caller, route.name, model, *whose))
        if leases is None:
            return
        tier = requested_tier(sent)
        cost = costs.of(route, sent.model, expected_tokens(sent, route), tier)
        if cost.unpriced and leases.strict:
            raise price_unknown(leases.strict, cost.unpriced)
        found = leases.reserve(cost)
        if found is None:
            flush()
            found = leases.reserve(cost) or await _ask(budgets, leases, cost, request.exchange)
        if isinstance(found, Reservation):
            budgets.holds[record.request_id] = found
            return
        record.budget, cheaper = cheaper_model(found, budgets.named)
        if not cheaper or cheaper in moved:
            raise _refuse(budgets, found, request)
        moved.add(cheaper)
        budgets.count_moved(record.budget)
        generation = request.generation
        route, sent = generation.table.find(cheaper), replace(sent, model=cheaper)
        request.route, record.route = route, route.name
        request.enrolment = None
        request.use(sent)
        if generation.config.server.expose_headers:
            headers = request.response.own_headers
            headers.append((b"x-gateway-budget", quote(record.budget).encode()))
            headers.append((b"x-gateway-budget-model", quote(cheaper, safe="/:@+").encode()))


async def _ask(
    budgets: Budgets, leases: BudgetLeases, cost: Cost, exchange: HotExchange
) -> Reservation | tuple[Shortfall, ...]:
    """Reserve a request that the leases do not cover, with more of them."""
    with DisconnectGuard(exchange):
        return await budgets.asker.ask(leases, cost)


def _refuse(
    budgets: Budgets, short: tuple[Shortfall, ...], request: RequestContext
) -> BudgetExceeded:
    """Count a refusal by the budget that lasts longest, and say until when."""
    last = max(short, key=lasting)
    request.record.budget = last.budget
    budgets.count_refused(last.budget)
    error = budget_exceeded(budgets.named[last.budget], last, time.time())
    if error.retry_after is None or error.retry_after > SOON_S:
        request.response.own_headers.append((b"x-should-retry", b"false"))
    return error
