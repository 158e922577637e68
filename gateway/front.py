"""The thin ASGI front: hot paths go straight to their endpoint objects, the rest to Litestar."""

from collections.abc import Mapping

from litestar.types import ASGIApp, Receive, Scope, Send

from gateway.endpoint import Endpoint


class Front:
    """An ASGI application. One dictionary look-up stands between a hot request and its endpoint."""

    def __init__(self, hot: Mapping[str, Endpoint], rest: ASGIApp) -> None:
        self._hot = dict(hot)
        self._rest = rest

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            endpoint = self._hot.get(scope["path"])
            if endpoint is not None:
                await endpoint(scope, receive, send)
                return
        await self._rest(scope, receive, send)
