"""The headers that a candidate's endpoint picker would receive."""

from strowger_gateway.gateway.governance.access.auth import Caller
from strowger_gateway.gateway.routing.planning.candidate import Candidate
from strowger_gateway.gateway.routing.planning.request_facts import RequestFacts
from strowger_gateway.gateway.routing.request_record import RequestRecord
from strowger_gateway.schemas.requests import Request


def picker_headers(
    one: Candidate, request: Request, facts: RequestFacts, caller: Caller
) -> dict[str, str]:
    """Return them by name; {} without a pool."""
    if one.backend.pool is None:
        return {}
    record = RequestRecord(
        request_id=facts.request_id,
        started=facts.now,
        attempts=[],
        caller=caller.name,
        team=caller.team,
        user=caller.user,
        client_headers=facts.headers,
    )
    lines = one.backend.pool.lines(request, one.request, record).decode("ascii").splitlines()
    return dict(line.split(": ", 1) for line in lines)
