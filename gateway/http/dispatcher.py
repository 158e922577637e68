"""The thin ASGI entry: hot paths go straight to their endpoints, everything else to Litestar."""

from collections.abc import Callable, Mapping

from litestar.types import ASGIApp, Receive, Scope, Send

from strowger_gateway.gateway.assembly.gateway import Gateway
from strowger_gateway.gateway.http.cross_site_refusal import refuse
from strowger_gateway.gateway.http.endpoint import Endpoint
from strowger_gateway.gateway.server.asgi.client_timeouts import with_body_errors
from strowger_gateway.gateway.server.asgi.exchange import AsgiExchange
from strowger_gateway.gateway.surfaces.hot_route import TemplatedPaths
from strowger_gateway.gateway.surfaces.path_aliases import own_path
from strowger_gateway.schemas.errors import Forbidden

_ALL_METHODS = b"GET, HEAD, POST, OPTIONS"
"""What some route accepts: https://www.rfc-editor.org/rfc/rfc9110#section-9.3.7, for `*`."""


class Dispatcher:
    """An ASGI application. A hot request reaches its endpoint with one dictionary look-up.

    A path that contains a model name needs a few pattern matches more.
    """

    def __init__(
        self,
        gateway: Gateway,
        hot: Mapping[str, Endpoint],
        paths: TemplatedPaths,
        rest: Callable[[], ASGIApp],
    ) -> None:
        """hot: endpoints by path, as the route was written. paths: finds paths that contain a name.

        rest: builds the app for everything else, once.
        """
        self.hot = dict(hot)
        self._paths = paths
        self._build_rest = rest
        self._rest: ASGIApp | None = None
        self._gateway = gateway

    def complete(self) -> ASGIApp:
        """Build the app for everything else, unless it exists already."""
        if self._rest is None:
            self._rest = self._build_rest()
        return self._rest

    def find_hot(self, path: str) -> Endpoint | None:
        """Return the endpoint of a hot path, or of an alias; `None` if it is Litestar's."""
        endpoint = self.hot.get(path) or self.hot.get(self._paths.find(path)[0])
        if endpoint is None and (own := own_path(path)):
            return self.hot.get(own) or self.hot.get(self._paths.find(own)[0])
        return endpoint

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            endpoint = self.find_hot(scope["path"])
            if endpoint is not None:
                await endpoint(scope, receive, send)
                return
            door = self._gateway.runtime.access.door
            if door is not None:
                try:
                    door.check(scope)
                except Forbidden as exc:
                    await refuse(exc, AsgiExchange(scope, receive, send))
                    return
            if scope["path"] == "*" and scope["method"] == "OPTIONS":
                await AsgiExchange(scope, receive, send).whole(204, [(b"allow", _ALL_METHODS)], b"")
                return
            if own := own_path(scope["path"]):
                scope = {**scope, "path": own, "raw_path": own.encode()}
            receive = with_body_errors(scope, receive)
        await (self._rest or self.complete())(scope, receive, send)
