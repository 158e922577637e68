"""`POST /admin/explain`: where the request in the body would be routed, and why."""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

from litestar import Request, post
from litestar.datastructures import State
from litestar.handlers import HTTPRouteHandler
from litestar.openapi.spec import OpenAPIMediaType, Operation, RequestBody, Schema
from litestar.params import QueryParameter

from strowger_gateway.gateway.assembly.gateway import Gateway
from strowger_gateway.gateway.console.admin.access import SCHEME
from strowger_gateway.gateway.console.admin.budgets import read_budgets
from strowger_gateway.gateway.console.admin.limits import limit_standings
from strowger_gateway.gateway.console.explain.explanation import Explanation
from strowger_gateway.gateway.governance.budgets.process_side import BudgetsSide
from strowger_gateway.gateway.governance.end_users.process_side import EndUsersSide
from strowger_gateway.gateway.governance.limits.process_side import LimitsSide
from strowger_gateway.gateway.governance.reservations.part import costs_of
from strowger_gateway.gateway.platform.clock import now
from strowger_gateway.schemas.errors import Unavailable

if TYPE_CHECKING:
    from strowger_gateway.gateway.console.explain.query import Explained, Query

_Request = Request[object, object, State]
_NOT_THE_CLIENTS = (b"authorization", b"content-length", b"host")
"""Headers of the operator's own request; all others count as the client's."""


@dataclass
class _Documented(Operation):
    def __post_init__(self) -> None:
        self.request_body = RequestBody(
            required=True,
            description="The request to explain, as the client would send it to its endpoint",
            content={"application/json": OpenAPIMediaType(schema=Schema())},
        )


def explain_route(current: Callable[[], Gateway]) -> HTTPRouteHandler:
    @post(
        "/explain",
        status_code=200,
        operation_class=_Documented,
        summary="Where a request would be routed, and why, with current loads and breakers",
        role="viewer",
        security=[{SCHEME: []}],
    )
    async def explained(
        request: _Request,
        path: Annotated[
            str,
            QueryParameter(
                description="path of its endpoint, or a surface's name; else detected from the body"
            ),
        ] = "",
        model: Annotated[
            str, QueryParameter(description="model, for endpoints whose path contains it")
        ] = "",
        caller: Annotated[str, QueryParameter(name="key", description="name of a client key")] = "",
        claims: Annotated[
            str | None,
            QueryParameter(
                description="in place of `key`: JSON object of a token's claims; its signature "
                "counts as valid"
            ),
        ] = None,
        down: Annotated[
            list[str] | None, QueryParameter(description="backends or providers to assume down")
        ] = None,
    ) -> Explanation:
        # Imported here: most gateways never explain a request, and save 0.6 MB.
        from strowger_gateway.gateway.console.explain.query import Query

        query = Query(
            body=await request.body(),
            path=path,
            model=model,
            key=caller,
            claims=None if claims is None else claims.encode(),
            headers=tuple(
                pair for pair in request.scope["headers"] if pair[0] not in _NOT_THE_CLIENTS
            ),
            down=tuple(down or ()),
        )
        return await explain_to(current(), query)

    return explained


async def explain_to(gateway: Gateway, query: "Query") -> Explanation:
    """Explain a request to an operator. Raises as `explain_query`."""
    from strowger_gateway.gateway.console.explain.query import explain_query

    seen = await asyncio.to_thread(explain_query, query, gateway.runtime, now())
    return await _with_limits(gateway, seen, query)


async def _with_limits(gateway: Gateway, seen: "Explained", query: "Query") -> Explanation:
    """Add what is used of the limits and budgets of the request, as far as it is known."""
    from strowger_gateway.gateway.console.explain.held_to import held_to, with_limits

    key, headers = seen.caller.name, dict(query.headers)
    held = held_to(
        seen,
        gateway.side(LimitsSide).limits.rules_of(key),
        gateway.side(BudgetsSide).budgets.rules_of(key),
        costs_of(gateway.runtime.prepared),
        lambda place: gateway.side(EndUsersSide).finder.would_find(
            place, seen.parsed.request, headers
        ),
    )
    limits, budgets = None, None
    with suppress(Unavailable):
        limits = await limit_standings(gateway, held.places)
    with suppress(Unavailable):
        if held.budgets:
            named = tuple(budget for budget, _ in held.budgets)
            budgets = (await read_budgets(gateway, held.whose, named)).budgets
    return with_limits(seen.explanation, held, limits, budgets)
