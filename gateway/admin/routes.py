"""The routes under /admin; register new ones here."""

from collections.abc import Callable

from gateway.admin.access import admin_exists, role_required
from gateway.admin.audit import audit_route
from gateway.admin.backends import backends_route
from gateway.admin.budgets import budgets_route
from gateway.admin.engines import engines_route
from gateway.admin.events import events_route
from gateway.admin.experiments import experiment_routes
from gateway.admin.explain import explain_route
from gateway.admin.governance.routes import governance_routes
from gateway.admin.keys import key_routes
from gateway.admin.limits import limits_route
from gateway.admin.own_router import OwnRouter
from gateway.admin.page.routes import live_route, page_routes
from gateway.admin.page.sign_in import sign_in_routes
from gateway.admin.parameters import parameters_known
from gateway.admin.payloads import payload_routes
from gateway.admin.requests import request_routes
from gateway.admin.series import series_route
from gateway.admin.sessions import session_routes
from gateway.admin.usage import usage_route
from gateway.state import Gateway


def admin_routes(current: Callable[[], Gateway]) -> OwnRouter:
    api = OwnRouter(
        path="/",
        guards=[role_required(current), parameters_known],
        route_handlers=[
            engines_route(current),
            series_route(current),
            usage_route(current),
            budgets_route(current),
            limits_route(current),
            explain_route(current),
            live_route(current),
            backends_route(current),
            events_route(current),
            *request_routes(current),
            *payload_routes(current),
            *experiment_routes(current),
            *key_routes(current),
            *session_routes(current),
            audit_route(current),
        ],
        tags=["admin"],
    )
    pages = [*page_routes(current), *sign_in_routes(current), *governance_routes(current)]
    handlers = [api, *pages]
    return OwnRouter(path="/admin", guards=[admin_exists(current)], route_handlers=handlers)
