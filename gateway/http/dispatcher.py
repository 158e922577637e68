"""The thin ASGI entry: hot paths go straight to their endpoints, everything else to Litestar."""

from collections.abc import Callable, Mapping
from typing import cast

from litestar.types import ASGIApp, HTTPScope, Message, Receive, Scope, Send

from gateway.asgi.client_timeouts import with_receive_deadline
from gateway.http.endpoint import Endpoint
from gateway.http.error_envelopes import envelope
from gateway.state import Gateway
from gateway.surfaces.hot_route import TemplatedPaths
from schemas.errors import Forbidden, GatewayError


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
        self._hot = dict(hot)
        self._paths = paths
        self._build_rest = rest
        self._rest: ASGIApp | None = None
        self._gateway = gateway

    def complete(self) -> ASGIApp:
        """Build the app for everything else, unless it exists already."""
        if self._rest is None:
            self._rest = self._build_rest()
        return self._rest

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            path = scope["path"]
            door = self._gateway.runtime.door
            if door is not None:
                try:
                    door.check(scope)
                except Forbidden as exc:
                    await _refuse(exc, scope, send)
                    return
            endpoint = self._hot.get(path)
            if endpoint is None:
                route, _ = self._paths.find(path)
                endpoint = self._hot.get(route)
            if endpoint is not None:
                await endpoint(scope, receive, send)
                return
            receive = with_receive_deadline(scope, receive)
        await (self._rest or self.complete())(scope, receive, send)


async def _refuse(error: GatewayError, scope: HTTPScope, send: Send) -> None:
    """Answer with the error format of the path's surface; the body is not read."""
    body = b"" if scope["method"] == "HEAD" else envelope(scope["path"])(error)
    headers = [
        (b"content-type", b"application/json"),
        (b"content-length", b"%d" % len(body)),
        (b"connection", b"close"),
    ]
    start = {"type": "http.response.start", "status": error.status, "headers": headers}
    await send(cast(Message, start))
    await send(cast(Message, {"type": "http.response.body", "body": body}))
