"""The routes of the parts of the page; register new parts here."""

from collections.abc import Callable, Sequence

from litestar.exceptions import ValidationException
from litestar.handlers import HTTPRouteHandler

from strowger_gateway.gateway.assembly.gateway import Gateway
from strowger_gateway.gateway.console.admin.access import role_required
from strowger_gateway.gateway.console.admin.governance.audit_routes import audit_view_route
from strowger_gateway.gateway.console.admin.governance.frame import error_page, parameter_page
from strowger_gateway.gateway.console.admin.governance.key_routes import key_view_routes
from strowger_gateway.gateway.console.admin.governance.session_routes import session_view_routes
from strowger_gateway.gateway.console.admin.governance.spend_routes import spend_route
from strowger_gateway.gateway.console.admin.governance.state_routes import (
    budgets_view_route,
    limits_view_route,
)
from strowger_gateway.gateway.console.admin.own_router import OwnRouter
from strowger_gateway.schemas.errors import GatewayError


def governance_routes(current: Callable[[], Gateway]) -> list[OwnRouter]:
    def part(name: str, handlers: Sequence[HTTPRouteHandler]) -> OwnRouter:
        return OwnRouter(
            path="/view",
            guards=[role_required(current)],
            route_handlers=handlers,
            exception_handlers={
                GatewayError: error_page(current, name),
                ValidationException: parameter_page(current, name),
            },
        )

    return [
        part("Keys", key_view_routes(current)),
        part("Spend", [spend_route(current)]),
        part("Budgets", [budgets_view_route(current)]),
        part("Limits", [limits_view_route(current)]),
        part("Audit", [audit_view_route(current)]),
        part("Sessions", session_view_routes(current)),
    ]
