"""The thin ASGI front: hot paths go straight to their endpoint objects, the rest to Litestar."""

from collections.abc import Callable, Mapping

from litestar.types import ASGIApp, Receive, Scope, Send

from gateway.asgi.patience import in_time
from gateway.endpoint import Endpoint
from gateway.surfaces.hot import Paths


class Front:
    """An ASGI application. One dictionary look-up stands between a hot request and its endpoint.

    A path with a model's name in it costs a few patterns more.
    """

    def __init__(
        self, hot: Mapping[str, Endpoint], paths: Paths, rest: Callable[[], ASGIApp]
    ) -> None:
        """hot: by path, as the route was written. paths: finds those that hold a name.

        rest: builds what serves everything else, once.
        """
        self._hot = dict(hot)
        self._paths = paths
        self._build_rest = rest
        self._rest: ASGIApp | None = None

    def complete(self) -> ASGIApp:
        """Builds the rest, unless it stands already."""
        if self._rest is None:
            self._rest = self._build_rest()
        return self._rest

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            path = scope["path"]
            endpoint = self._hot.get(path)
            if endpoint is None:
                route, _ = self._paths.find(path)
                endpoint = self._hot.get(route)
            if endpoint is not None:
                await endpoint(scope, receive, send)
                return
            receive = in_time(scope, receive)
        await (self._rest or self.complete())(scope, receive, send)
