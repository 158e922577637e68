"""`/admin/view/budgets` and `/admin/view/limits`: what is used of them now, in a browser."""

import time
from collections.abc import Callable
from typing import Annotated

from litestar import Request, Response, get
from litestar.datastructures import State
from litestar.handlers import HTTPRouteHandler
from litestar.params import QueryParameter
from msgspec.structs import replace

from strowger_gateway.gateway.assembly.gateway import Gateway
from strowger_gateway.gateway.console.admin.budgets import read_budgets
from strowger_gateway.gateway.console.admin.governance.budgets import budgets_section
from strowger_gateway.gateway.console.admin.governance.frame import shown
from strowger_gateway.gateway.console.admin.governance.limits import limits_of_one, limits_section
from strowger_gateway.gateway.console.admin.governance.measured import limit_states, unused_limits
from strowger_gateway.gateway.console.admin.governance.whose import WhoseForm, whose_form
from strowger_gateway.gateway.console.admin.limits import read_limits
from strowger_gateway.gateway.console.admin.whose import whose_in
from strowger_gateway.gateway.governance.budgets.report import BudgetOverview
from strowger_gateway.gateway.governance.end_users.end_users import LONGEST
from strowger_gateway.gateway.governance.issued_keys.process_side import KeysSide
from strowger_gateway.gateway.governance.limits.scope import Whose
from strowger_gateway.schemas.errors import InvalidRequest

_Request = Request[object, object, State]
_Text = Annotated[str, QueryParameter(max_length=LONGEST)]


def budgets_view_route(current: Callable[[], Gateway]) -> HTTPRouteHandler:
    @get("/budgets", role="viewer", include_in_schema=False)
    async def budgets(request: _Request, key: _Text = "", end_user: _Text = "") -> Response[str]:
        gateway = current()
        whose, form, status = _whose(gateway, "budgets", key, end_user)
        if form.refused:
            overview = BudgetOverview(at=time.time(), budgets=(), omitted={})
        else:
            overview = await read_budgets(gateway, whose)
        of_one = whose is not None or status != 200
        section = budgets_section(overview, whose_form(form), of_one=of_one)
        return await shown(gateway, request, "Budgets", [section], status)

    return budgets


def limits_view_route(current: Callable[[], Gateway]) -> HTTPRouteHandler:
    @get("/limits", role="viewer", include_in_schema=False)
    async def limits(request: _Request, key: _Text = "", end_user: _Text = "") -> Response[str]:
        gateway = current()
        whose, form, status = _whose(gateway, "limits", key, end_user)
        if form.refused:
            section = limits_of_one((), whose_form(form))
        elif whose is None:
            states = await limit_states(gateway)
            unused = unused_limits(gateway.side(KeysSide).rules.limits(), states)
            section = limits_section(states, unused, whose_form(form))
        else:
            found = await read_limits(gateway, whose)
            section = limits_of_one(found.limits, whose_form(form))
        return await shown(gateway, request, "Limits", [section], status)

    return limits


def _whose(
    gateway: Gateway, part: str, key: str, end_user: str
) -> tuple[Whose | None, WhoseForm, int]:
    """The caller that the form names, the form, and the status of the answer."""
    form = WhoseForm(part=part, key=key.strip(), end_user=end_user.strip())
    try:
        whose = whose_in(gateway, form.key, form.end_user)
    except InvalidRequest as exc:
        return None, replace(form, refused=exc.message), exc.status
    return whose, replace(form, account="" if whose is None else whose.end_user), 200
