"""`/admin/view/budgets` and `/admin/view/limits`: what is used of them now, in a browser."""

from collections.abc import Callable

from litestar import Request, Response, get
from litestar.datastructures import State
from litestar.handlers import HTTPRouteHandler

from gateway.admin.budgets import read_budgets
from gateway.admin.governance.budgets import budgets_section
from gateway.admin.governance.frame import shown
from gateway.admin.governance.limits import limits_section
from gateway.admin.governance.measured import limit_states, unused_limits
from gateway.state import Gateway

_Request = Request[object, object, State]


def budgets_view_route(current: Callable[[], Gateway]) -> HTTPRouteHandler:
    @get("/budgets", role="viewer", include_in_schema=False)
    async def budgets(request: _Request) -> Response[str]:
        gateway = current()
        section = budgets_section(await read_budgets(gateway))
        return shown(gateway, request, "Budgets", [section])

    return budgets


def limits_view_route(current: Callable[[], Gateway]) -> HTTPRouteHandler:
    @get("/limits", role="viewer", include_in_schema=False)
    async def limits(request: _Request) -> Response[str]:
        gateway = current()
        states = await limit_states(gateway)
        section = limits_section(states, unused_limits(gateway.rules.limits(), states))
        return shown(gateway, request, "Limits", [section])

    return limits
