"""The routes under /admin. Those of parts come from the parts themselves."""

from collections.abc import Callable

from strowger_gateway.gateway.assembly.gateway import Gateway
from strowger_gateway.gateway.console.admin.access import admin_exists, role_required
from strowger_gateway.gateway.console.admin.audit import audit_route
from strowger_gateway.gateway.console.admin.backends import backends_route
from strowger_gateway.gateway.console.admin.budgets import budgets_route
from strowger_gateway.gateway.console.admin.engines import engines_route
from strowger_gateway.gateway.console.admin.exclusions import exclusion_routes
from strowger_gateway.gateway.console.admin.experiments import experiment_routes
from strowger_gateway.gateway.console.admin.explain import explain_route
from strowger_gateway.gateway.console.admin.explaining.routes import explain_view_routes
from strowger_gateway.gateway.console.admin.governance.part_views import part_views
from strowger_gateway.gateway.console.admin.governance.routes import governance_routes
from strowger_gateway.gateway.console.admin.keys import key_routes
from strowger_gateway.gateway.console.admin.languages import use_readers_language
from strowger_gateway.gateway.console.admin.limits import limits_route
from strowger_gateway.gateway.console.admin.own_router import OwnRouter
from strowger_gateway.gateway.console.admin.page.language_route import language_route
from strowger_gateway.gateway.console.admin.page.routes import live_routes, page_routes
from strowger_gateway.gateway.console.admin.page.sign_in import sign_in_routes
from strowger_gateway.gateway.console.admin.parameters import parameters_known
from strowger_gateway.gateway.console.admin.part_routes import part_routes
from strowger_gateway.gateway.console.admin.payloads import payload_routes
from strowger_gateway.gateway.console.admin.request_log.export import export_route
from strowger_gateway.gateway.console.admin.request_log.routes import request_routes
from strowger_gateway.gateway.console.admin.request_log.tail import tail_route
from strowger_gateway.gateway.console.admin.request_views.routes import request_views
from strowger_gateway.gateway.console.admin.sessions import session_routes
from strowger_gateway.gateway.console.admin.traffic.reader import TrafficReader
from strowger_gateway.gateway.console.admin.traffic.series import series_route
from strowger_gateway.gateway.console.admin.usage import usage_route


def admin_routes(current: Callable[[], Gateway]) -> OwnRouter:
    traffic = TrafficReader(current)
    api = OwnRouter(
        path="/",
        guards=[role_required(current), parameters_known],
        route_handlers=[
            engines_route(current),
            series_route(current, traffic),
            usage_route(current),
            budgets_route(current),
            limits_route(current),
            explain_route(current),
            *live_routes(current, traffic),
            backends_route(current),
            *request_routes(current),
            export_route(current),
            tail_route(current),
            *payload_routes(current),
            *experiment_routes(current),
            *exclusion_routes(current),
            *key_routes(current),
            *session_routes(current),
            audit_route(current),
            *part_routes(current),
        ],
        tags=["admin"],
    )
    pages = [*page_routes(current, traffic), language_route(current), *sign_in_routes(current)]
    handlers = [api, *pages, *governance_routes(current), *part_views(current)]
    handlers += [explain_view_routes(current), request_views(current)]
    return OwnRouter(
        path="/admin",
        guards=[admin_exists(current)],
        before_request=use_readers_language,
        route_handlers=handlers,
    )
