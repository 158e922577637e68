"""Name the field in an error about a request as its client does."""

from strowger_gateway.gateway.routing.planning.plan import Plan
from strowger_gateway.gateway.stages.request_context import RequestContext
from strowger_gateway.gateway.surfaces.field_names import FieldNames
from strowger_gateway.gateway.surfaces.sent_places import without_places
from strowger_gateway.schemas.errors import GatewayError
from strowger_gateway.schemas.prompt_too_long import CONTEXT_LENGTH, PLACES
from strowger_gateway.schemas.requests import Request


def name_field(
    error: GatewayError,
    request: Request,
    names: FieldNames,
    plan: Plan | None = None,
    backend: str = "",
) -> None:
    """backend: the name of the one that failed or refused, to whose request indices belong."""
    if error.code == CONTEXT_LENGTH:
        error.param = PLACES[request.task]
    if error.param is None:
        return
    candidates = () if plan is None else (*plan.candidates, *plan.unavailable)
    tried = [one for one in candidates if one.name == backend]
    if backend and not tried:  # of `fallback_by_error`, whose request the plan does not have
        error.param = without_places(error.param)
    names.rename(error, request, tried[0].request if tried else None)


async def explain(error: GatewayError, request: RequestContext, names: FieldNames) -> None:
    """Name the client's field in an error of a backend, and mask what it quotes of it."""
    sent = request.request
    assert sent is not None
    name_field(error, sent, names, request.plan, request.record.backend)
    for one in request.filters:
        await one.error(error)
