"""`POST /admin/explain`: where the request in the body would be routed, and why."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated

from litestar import Request, post
from litestar.datastructures import State
from litestar.handlers import HTTPRouteHandler
from litestar.openapi.spec import OpenAPIMediaType, Operation, RequestBody, Schema
from litestar.params import QueryParameter

from gateway.admin.access import SCHEME
from gateway.clock import now
from gateway.explain.explanation import Explanation
from gateway.state import Gateway
from schemas.errors import InvalidRequest

_Request = Request[object, object, State]
_NOT_THE_CLIENTS = (b"authorization", b"content-length", b"host")
"""Headers of the operator's own request; all others count as the client's."""
_PARAMETERS = ("path", "model", "key", "down")
"""Unknown parameters are rejected: a misspelt `down` would show a result without the outage."""


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
        down: Annotated[
            list[str] | None, QueryParameter(description="backends or providers to assume down")
        ] = None,
    ) -> Explanation:
        for name in request.query_params:
            if name not in _PARAMETERS:
                known = ", ".join(_PARAMETERS)
                raise InvalidRequest(f"{name}: unknown query parameter; known: {known}", param=name)
        # Imported here: most gateways never explain a request, and save 0.6 MB.
        from gateway.explain.query import Query, explain_query

        query = Query(
            body=await request.body(),
            path=path,
            model=model,
            key=caller,
            headers=tuple(
                pair for pair in request.scope["headers"] if pair[0] not in _NOT_THE_CLIENTS
            ),
            down=tuple(down or ()),
        )
        return await asyncio.to_thread(explain_query, query, current().runtime, now())

    return explained
