"""`GET /admin/requests` and `/admin/requests/{id}`: recent requests and how they were routed.

Older requests come from the store, which records the outcome but not the decisions.
"""

from collections.abc import Callable, Mapping
from typing import Annotated, Literal

import msgspec
from litestar import get
from litestar.handlers import HTTPRouteHandler
from litestar.params import FromPath, QueryParameter
from msgspec import Struct

from strowger_gateway.gateway.assembly.gateway import Gateway
from strowger_gateway.gateway.assembly.request_log import MAX_RECENT
from strowger_gateway.gateway.console.admin.access import SCHEME
from strowger_gateway.gateway.observability.telemetry.recent_requests import RecentRequest
from strowger_gateway.gateway.routing.exclusion import Exclusion
from strowger_gateway.gateway.routing.request_record import AttemptRecord
from strowger_gateway.gateway.storage.sql.request_queries import RecordedRequest
from strowger_gateway.gateway.storage.sql.rows import Attribute, RecordedFields
from strowger_gateway.schemas.errors import RouteNotFound, Unavailable


class AttemptView(Struct, frozen=True, kw_only=True):
    """One attempt. outcome: `ok`, `cancelled`, `lost` to a faster attempt, or the error's code.

    hedge:   started in parallel because the first attempt was late; from the store: the one of two
             parallel attempts that did not serve.
    refused: nothing was sent, because the backend's API cannot express the request; not stored.
    """

    backend: str
    outcome: str
    ms: float
    hedge: bool
    refused: bool


class RuledOutView(Struct, frozen=True, kw_only=True):
    backend: str
    reason: str


class RequestView(RecordedFields, frozen=True, kw_only=True, omit_defaults=False):
    """One finished request: its access log line, and why it was routed as it was.

    source:     memory, or the store, which does not keep decisions: `client_request_id`, `rule`,
                `candidates`, `ruled_out`, `excluded`, `refused`, `dropped`, `repaired`, `tags`,
                `usage_source` and the counts of cached and reasoning tokens are then empty.
    rule:       index of the `when` rule that matched, from 0.
    excluded:   why it does not count in its model's experiment; null: it does, or there is none.
    candidates: in order of preference, tried or not. refused: why no backend was tried, else "".
    """

    attributes: Mapping[str, Attribute] = {}
    source: Literal["memory", "store"]
    client_request_id: str
    excluded: Exclusion | None
    rule: int | None
    candidates: tuple[str, ...]
    ruled_out: list[RuledOutView]
    attempts: list[AttemptView]
    refused: str
    dropped: tuple[str, ...]
    repaired: tuple[str, ...]
    cached_tokens: int | None
    reasoning_tokens: int | None
    usage_source: str


class RequestList(Struct, frozen=True, kw_only=True):
    """Newest first."""

    requests: list[RequestView]


def request_routes(current: Callable[[], Gateway]) -> list[HTTPRouteHandler]:
    @get(
        "/requests",
        summary=f"Recent requests, at most {MAX_RECENT} per worker, and how each was routed",
        role="viewer",
        security=[{SCHEME: []}],
    )
    async def requests(
        limit: Annotated[
            int, QueryParameter(ge=1, le=MAX_RECENT, description="number of requests, newest first")
        ] = 50,
        before: Annotated[
            float | None,
            QueryParameter(
                gt=0, description="Unix seconds; lists stored requests that ended earlier"
            ),
        ] = None,
    ) -> RequestList:
        gateway = current()
        if before is None:
            return RequestList(
                requests=[viewed(one) for one in await gateway.processes.recent(limit)]
            )
        if gateway.store is None:
            raise Unavailable("older requests require a store, and this gateway has none")
        older = await gateway.store.call(lambda store: store.recorded_before(before, limit))
        return RequestList(requests=[of_store(one) for one in older])

    @get(
        "/requests/{request_id:str}",
        summary="One recent request, by x-gateway-request-id or the client's x-request-id",
        role="viewer",
        security=[{SCHEME: []}],
    )
    async def request(request_id: FromPath[str]) -> RequestView:
        gateway = current()
        found = await gateway.processes.recent(1, request_id)
        if found:
            return viewed(found[0])
        if gateway.store is not None:
            older = await gateway.store.call(lambda store: store.recorded_request(request_id))
            if older is not None:
                return of_store(older)
        raise RouteNotFound(
            f"request {request_id!r} not found among the last {MAX_RECENT} of any worker or in the "
            "store, which finds requests by x-gateway-request-id only",
            code="unknown_request",
        )

    return [requests, request]


def viewed(decision: RecentRequest) -> RequestView:
    """Combine the access line's fields and the decisions, under the same names."""
    values: dict[str, object] = {"source": "memory"}
    for name in RequestView.__struct_fields__:
        if name != "source":
            values[name] = getattr(decision if hasattr(decision, name) else decision.line, name)
    values["attributes"] = decision.line.attributes or {}
    values["ruled_out"] = [
        RuledOutView(backend=backend, reason=reason) for backend, reason in decision.ruled_out
    ]
    values["attempts"] = [_attempt(attempt) for attempt in decision.line.attempts]
    return msgspec.convert(values, RequestView)


def of_store(one: RecordedRequest) -> RequestView:
    """Copy the row's fields under the same names."""
    values: dict[str, object] = {
        field: getattr(one, field) for field in RecordedFields.__struct_fields__
    }
    attempts = [
        AttemptView(
            backend=attempt.backend,
            outcome=attempt.outcome,
            ms=round(attempt.ms, 3),
            hedge=attempt.role == "hedge",
            refused=False,
        )
        for attempt in one.attempts
        if attempt.role != "mirror"
    ]
    values |= {"attributes": one.attributes or {}, "attempts": attempts}
    return msgspec.convert({**_NOT_STORED, **values}, RequestView)


_NOT_STORED: dict[str, object] = {
    "source": "store",
    "client_request_id": "",
    "rule": None,
    "candidates": (),
    "ruled_out": [],
    "excluded": None,
    "refused": "",
    "dropped": (),
    "repaired": (),
    "cached_tokens": None,
    "reasoning_tokens": None,
    "usage_source": "",
}


def _attempt(attempt: AttemptRecord) -> AttemptView:
    return AttemptView(
        backend=attempt.backend,
        outcome=attempt.outcome,
        ms=round(attempt.ms, 3),
        hedge=attempt.hedge,
        refused=attempt.refused,
    )
