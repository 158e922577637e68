"""`/admin/view/budgets` and `/admin/view/limits`: what is used of them now, in a browser."""

import time
from collections.abc import Callable

from litestar import Request, Response, get
from litestar.datastructures import State
from litestar.handlers import HTTPRouteHandler

from gateway.admin.governance.budgets import budgets_section
from gateway.admin.governance.frame import shown
from gateway.admin.governance.limits import limits_section
from gateway.admin.governance.measured import budget_states, limit_states, unused_limits
from gateway.state import Gateway

_Request = Request[object, object, State]


def budgets_view_route(current: Callable[[], Gateway]) -> HTTPRouteHandler:
    @get("/budgets", role="viewer", include_in_schema=False)
    async def budgets(request: _Request) -> Response[str]:
        gateway, now = current(), time.time()
        section = budgets_section(await budget_states(gateway, now), now)
        return shown(gateway, request, "Budgets", [section])

    return budgets


def limits_view_route(current: Callable[[], Gateway]) -> HTTPRouteHandler:
    @get("/limits", role="viewer", include_in_schema=False)
    async def limits(request: _Request) -> Response[str]:
        gateway = current()
        states = await limit_states(gateway)
        section = limits_section(states, unused_limits(gateway.runtime.config, states))
        return shown(gateway, request, "Limits", [section])

    return limits
