"""`GET /admin/budgets`: what each budget has spent, reserved and left, with a forecast."""

import time
from collections.abc import Callable, Sequence

from litestar import Response, get
from litestar.handlers import HTTPRouteHandler

from strowger_gateway.gateway.assembly.gateway import Gateway
from strowger_gateway.gateway.config.schema.budgets import Budget
from strowger_gateway.gateway.console.admin.access import SCHEME
from strowger_gateway.gateway.console.admin.whose import (
    EndUserParameter,
    KeyParameter,
    TeamParameter,
    UserParameter,
    whose_in,
)
from strowger_gateway.gateway.governance.budgets.report import BudgetOverview, budget_report
from strowger_gateway.gateway.governance.issued_keys.process_side import KeysSide
from strowger_gateway.gateway.governance.limits.scope import Whose
from strowger_gateway.schemas.errors import Unavailable

_UNCACHED = {"cache-control": "no-store"}


async def read_budgets(
    gateway: Gateway, whose: Whose | None = None, only: Sequence[Budget] | None = None
) -> BudgetOverview:
    """Read the budgets in force: all of them, or those that apply to a caller. only: of these.

    Raises Unavailable, StoreUnavailable.
    """
    if gateway.store is None:
        raise Unavailable("budgets are read from the store, and this gateway has none")
    budgets, at = gateway.side(KeysSide).rules.budgets() if only is None else only, time.time()
    return await gateway.store.call(lambda store: budget_report(budgets, store, at, whose))


def budgets_route(current: Callable[[], Gateway]) -> HTTPRouteHandler:
    @get(
        "/budgets",
        summary="What each budget has spent, reserved and left in its period",
        role="viewer",
        security=[{SCHEME: []}],
    )
    async def budgets(
        key: KeyParameter = "",
        end_user: EndUserParameter = "",
        team: TeamParameter = "",
        user: UserParameter = "",
    ) -> Response[BudgetOverview]:
        gateway = current()
        whose = whose_in(gateway, key, end_user, team=team, user=user)
        return Response(await read_budgets(gateway, whose), headers=_UNCACHED)

    return budgets
