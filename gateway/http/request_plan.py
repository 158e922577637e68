"""Plan a request, and record why it goes where it goes."""

from litestar.types import Scope

from strowger_gateway.gateway.assembly.gateway import Gateway
from strowger_gateway.gateway.http.error_fields import name_field
from strowger_gateway.gateway.routing.planning.plan import Plan
from strowger_gateway.gateway.routing.planning.planner import Planner
from strowger_gateway.gateway.routing.planning.request_facts import RequestFacts
from strowger_gateway.gateway.routing.planning.route import Route
from strowger_gateway.gateway.routing.request_record import RequestRecord
from strowger_gateway.gateway.surfaces.hot_route import HotRoute
from strowger_gateway.schemas.errors import GatewayError
from strowger_gateway.schemas.requests import Request, TokenRequest
from strowger_gateway.schemas.service_tier import tier_in


def plan_of(
    route: Route,
    request: Request,
    scope: Scope,
    gateway: Gateway,
    planner: Planner,
    record: RequestRecord,
    at_route: HotRoute,
) -> Plan:
    """Plan the request, and record why it goes where it goes, but none of its content.

    Enrolment in an experiment comes first, because a rejection is an outcome, too.
    """
    facts = RequestFacts(
        uniform_draw=gateway.random.random(),
        now=record.started,
        caller=record.caller,
        headers=scope["headers"],
        request_id=record.request_id,
    )
    enrolment = planner.enrol(route, request, facts)
    if enrolment is not None:
        record.participation = enrolment.participation
    try:
        planned = planner.plan(route, request, facts, enrolment, counting=at_route.counts)
    except GatewayError as exc:
        name_field(exc, request, at_route.surface.field_names)
        raise
    if type(request) is not TokenRequest and request.extra:
        record.requested_tier = record.service_tier = tier_in(request.extra) or ""
    if planner.pooled:
        record.client_headers = facts.headers
    record.candidates, record.rule = planned.names, planned.rule
    if planned.ruled_out:
        record.ruled_out = planned.ruled_out
    return planned
