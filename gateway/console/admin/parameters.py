"""Query parameters that a route under /admin does not have are rejected.

A misspelt filter would otherwise show everything.
"""

from typing import Final

from litestar.connection import ASGIConnection
from litestar.datastructures import State
from litestar.handlers import BaseRouteHandler
from litestar.params import QueryParameter

from strowger_gateway.schemas.errors import InvalidRequest

TAKEN: Final = "parameters"
"""The entry in a handler's `opt` of the parameters that it reads itself."""


def parameters_known(
    connection: ASGIConnection[BaseRouteHandler, object, object, State], handler: BaseRouteHandler
) -> None:
    """Guard: raise InvalidRequest for a query parameter that the handler does not declare."""
    if not connection.scope["query_string"]:
        return
    known = [
        field.kwarg_definition.name or name
        for name, field in handler.parsed_fn_signature.parameters.items()
        if isinstance(field.kwarg_definition, QueryParameter)
    ] + list(handler.opt.get(TAKEN, ()))
    for name in connection.query_params:
        if name not in known:
            remedy = f"known: {', '.join(known)}" if known else "this route has none"
            raise InvalidRequest(f"{name}: unknown query parameter; {remedy}", param=name)
