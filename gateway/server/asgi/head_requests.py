"""Answer HEAD as GET, without the body: https://www.rfc-editor.org/rfc/rfc9110#section-9.3.2"""

from litestar.types import ASGIApp, HTTPScope, Receive, Scope, Send


class HeadRequests:
    """An ASGI wrapper; the inner application sees a GET. The server leaves the body out."""

    def __init__(self, inner: ASGIApp) -> None:
        self._inner = inner

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and scope["method"] == "HEAD":
            scope = _as_get(scope)
        await self._inner(scope, receive, send)


def _as_get(scope: HTTPScope) -> HTTPScope:
    """Return a copy of the scope; it shares the original's `state`."""
    as_get = scope.copy()
    as_get["method"] = "GET"
    return as_get
