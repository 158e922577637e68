"""An endpoint whose path streams in two forms: as events with `alt=sse`, else as a JSON list.

https://cloud.google.com/apis/docs/system-parameters
"""

from typing import Final

from strowger_gateway.gateway.assembly.gateway import Gateway
from strowger_gateway.gateway.http.endpoint import Endpoint
from strowger_gateway.gateway.server.asgi.exchange import HotExchange
from strowger_gateway.gateway.surfaces.hot_route import HotRoute

_EVENTS: Final = frozenset({b"alt=sse", b"$alt=sse", b"%24alt=sse"})


class ListedEndpoint(Endpoint):
    """One route, and the route of the same path that streams a list."""

    def __init__(self, gateway: Gateway, route: HotRoute, listed: HotRoute) -> None:
        super().__init__(gateway, route)
        self._listed = Endpoint(gateway, listed)

    async def answer(self, exchange: HotExchange) -> None:
        """See Endpoint."""
        query = exchange.scope["query_string"].split(b"&")
        if _EVENTS.isdisjoint(query):
            await self._listed.answer(exchange)
        else:
            await super().answer(exchange)


def endpoint(gateway: Gateway, route: HotRoute) -> Endpoint:
    """Return the endpoint of a route."""
    if route.listed is None:
        return Endpoint(gateway, route)
    return ListedEndpoint(gateway, route, route.listed)
