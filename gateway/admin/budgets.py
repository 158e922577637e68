"""`GET /admin/budgets`: what each budget has spent, reserved and left, with a forecast."""

import time
from collections.abc import Callable
from functools import partial

from litestar import Response, get
from litestar.handlers import HTTPRouteHandler

from gateway.admin.access import SCHEME
from gateway.budgets.report import BudgetOverview, budget_report
from gateway.state import Gateway
from schemas.errors import Unavailable

_UNCACHED = {"cache-control": "no-store"}


async def read_budgets(gateway: Gateway) -> BudgetOverview:
    """Read the budgets in force. Raises Unavailable, StoreUnavailable."""
    if gateway.experiments is None:
        raise Unavailable("budgets are read from the store, and this gateway has none")
    budgets, store = gateway.rules.budgets(), gateway.experiments.store
    return await gateway.experiments.ask(partial(budget_report, budgets, store, time.time()))


def budgets_route(current: Callable[[], Gateway]) -> HTTPRouteHandler:
    @get(
        "/budgets",
        summary="What each budget has spent, reserved and left in its period",
        role="viewer",
        security=[{SCHEME: []}],
    )
    async def budgets() -> Response[BudgetOverview]:
        return Response(await read_budgets(current()), headers=_UNCACHED)

    return budgets
