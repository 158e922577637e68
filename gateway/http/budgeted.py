"""Find room for a request that its budgets lack room for, a cheaper model for it, or refuse it."""

import time
from collections.abc import Mapping
from datetime import datetime
from typing import Final
from urllib.parse import quote

from msgspec.structs import replace

from gateway.asgi.disconnect import DisconnectGuard
from gateway.asgi.exchange import HotExchange
from gateway.asgi.response import ResponseWriter
from gateway.budgets.ledger import Cost, Purses, Reservation, Short
from gateway.config.schema.budgets import Budget, UseModel
from gateway.limits.estimate import expected_tokens
from gateway.routing.planning.route import Route
from gateway.routing.request_record import RequestRecord
from gateway.runtime import Runtime
from gateway.state import Gateway
from gateway.store.spend_rows import NANOS
from gateway.time_zones import zone_named
from schemas.errors import BudgetExceeded, PriceUnknown
from schemas.requests import Request

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
        purses = budgets.of(place)
        if purses is None:
            return request, route
        cost = runtime.costs.of(route, request.model, expected_tokens(request, route))
        if cost.unpriced and purses.strict:
            raise PriceUnknown(
                f"the budget {purses.strict!r} needs the price of {cost.unpriced}; the operator "
                "can add it to prices, or set the budget's unknown_price"
            )
        found = purses.reserve(cost) or await _find_room(gateway, purses, cost, response.exchange)
        if isinstance(found, Reservation):
            budgets.holds[record.request_id] = found
            return request, route
        record.budget, cheaper = _cheaper(found, budgets.named)
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
    gateway: Gateway, purses: Purses, cost: Cost, exchange: HotExchange
) -> Reservation | tuple[Short, ...]:
    """Reserve a request that the leases do not cover: settle what has ended, then ask for more."""
    gateway.log.flush()
    found = purses.reserve(cost)
    if found is not None:
        return found
    with DisconnectGuard(exchange):
        return await gateway.budgets.asker.ask(purses, cost)


def _cheaper(short: tuple[Short, ...], named: Mapping[str, Budget]) -> tuple[str, str]:
    """The first budget without room that has a cheaper model, and the model; "" without one."""
    for one in short:
        rule = named[one.budget].on_exceeded if one.budget in named else None
        if isinstance(rule, UseModel):
            return one.budget, rule.use_model
    return "", ""


def _refuse(
    gateway: Gateway, short: tuple[Short, ...], record: RequestRecord, response: ResponseWriter
) -> BudgetExceeded:
    """Count a refusal by the budget that lasts longest, and say until when."""
    last = max(short, key=_lasting)
    record.budget = last.budget
    gateway.budgets.count_refused(last.budget)
    budget = gateway.budgets.named[last.budget]
    wait_s = None if last.resets is None else max(1.0, last.resets - time.time())
    if last.need > last.limit:
        wait_s = None
    if wait_s is None or wait_s > SOON_S:
        response.own_headers.append((b"x-should-retry", b"false"))
    return BudgetExceeded(_message(budget, last), retry_after=wait_s)


def _lasting(short: Short) -> float:
    if short.resets is None or short.need > short.limit:
        return float("inf")
    return short.resets


def _message(budget: Budget, short: Short) -> str:
    per = "in all" if budget.per == "total" else f"per {budget.per}"
    what = f"the budget {budget.name!r} of {_shown(budget, short.limit)} {per}"
    if short.need > short.limit or short.left:
        lower = "; lower max_tokens or shorten the prompt"
        what += f" has {_shown(budget, short.left)} left, and this request may use "
        what += f"{_shown(budget, short.need)}{lower}"
    else:
        what += " is used up"
    if short.resets is None or short.need > short.limit:
        return what
    at = datetime.fromtimestamp(short.resets, zone_named(budget.time_zone)).isoformat()
    return f"{what}; it begins again at {at}"


def _shown(budget: Budget, amount: int) -> str:
    if budget.usd is None:
        return f"{amount} tokens"
    text = f"{amount // NANOS}.{amount % NANOS:09}".rstrip("0").rstrip(".")
    return f"{text} USD"
