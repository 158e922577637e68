"""What Litestar serves, with a line in the access log for what an operator wants to see there:
everything at /admin, by whom, and every refusal of a key."""

import time
from collections.abc import Callable

from litestar.types import ASGIApp, HTTPScope, Message, Receive, Scope, Send

from gateway.admin.access import ACTOR, DENIED, actor
from gateway.clock import milliseconds, now
from gateway.request_ids import uuid7
from gateway.state import Gateway
from gateway.telemetry.access_log import AccessLine

REQUEST_ID = "strowger.request_id"
"""In the scope's state, as DENIED and ACTOR are."""

_REFUSALS = (401, 403)
_LONGEST_PATH = 500


class Watched:
    """An ASGI application around another."""

    def __init__(self, inner: ASGIApp, gateway: Callable[[], Gateway]) -> None:
        self._inner = inner
        self._gateway = gateway

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._inner(scope, receive, send)
            return
        began, status = now(), 0
        request_id = uuid7()
        scope.setdefault("state", {})[REQUEST_ID] = request_id

        async def sent(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        try:
            await self._inner(scope, receive, sent)
        finally:
            path = scope["path"]
            admin = path == "/admin" or path.startswith("/admin/")
            if admin or status in _REFUSALS:
                self._tell(scope, request_id, status, began, admin=admin)

    def _tell(
        self, scope: HTTPScope, request_id: str, status: int, began: float, *, admin: bool
    ) -> None:
        gateway = self._gateway()
        runtime, state = gateway.runtime, scope["state"]
        line = AccessLine(
            time=time.time(),
            request_id=request_id,
            surface="admin" if admin else "",
            status=status or 499,
            ms=milliseconds(now() - began),
            client=runtime.clients.of(scope),
            method=scope["method"],
            path=scope["path"][:_LONGEST_PATH],
            actor=state.get(ACTOR) or actor(runtime.admin_key, gateway.ended, scope["headers"])
            if admin
            else "",
            denied=state.get(DENIED, ""),
        )
        gateway.access_log.add((line,))
