"""Add request ids to what Litestar serves, and write the access lines that operators need:
all of /admin with its user, every request to stored things with its key, every rejected key, and
every request to an unknown path or with an unknown method."""

import time
from collections.abc import Callable
from typing import Final, NamedTuple, cast

from litestar.types import ASGIApp, HTTPScope, Message, Receive, Scope, Send
from msgspec import Struct

from strowger_gateway.gateway.assembly.gateway import Gateway
from strowger_gateway.gateway.console.admin.access import ACTOR, DENIED, REQUEST_ID, made_by
from strowger_gateway.gateway.governance.access.auth import Caller
from strowger_gateway.gateway.governance.access.client_certificate import certificate_name
from strowger_gateway.gateway.governance.access.key_shares import Slot
from strowger_gateway.gateway.http.admin_audit import AdminAnswer, record_answer
from strowger_gateway.gateway.observability.recording.process_side import AuditSide
from strowger_gateway.gateway.observability.telemetry.access_log import (
    AccessLine,
    grouped,
    in_one_line,
)
from strowger_gateway.gateway.platform.clock import now
from strowger_gateway.gateway.routing.request_record import (
    loggable_id,
    milliseconds,
    new_request_id,
)
from strowger_gateway.gateway.server.asgi.cors import Headers

FAILED, HEADERS = "strowger.failed", "strowger.headers"
"""Keys in the scope's state, like DENIED and ACTOR: a `Failed`, and the headers that a middleware
adds to the answer, whatever makes it."""

COUNTED = "strowger.counted"
"""Key in the scope's state: a `Counted`, of a request that counts like one for a model."""


class Counted(Struct, frozen=True, kw_only=True, eq=False):
    """surface: whose stored things it is about. slot: of its key, to claim memory for the answer;
    open until the answer has been sent.
    """

    surface: str
    caller: Caller
    slot: Slot


_TOLD: Final = (401, 403, 404, 405)
_LONGEST_PATH: Final = 500
_ID: Final = b"x-request-id"


class FailedRequest(NamedTuple):
    """The error in the answer. param: "" for no field."""

    code: str
    param: str
    message: str


_NOTHING: Final = FailedRequest("", "", "")


class LitestarLog:
    """An ASGI wrapper around the Litestar application."""

    def __init__(self, inner: ASGIApp, gateway: Callable[[], Gateway]) -> None:
        self._inner = inner
        self._gateway = gateway

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._inner(scope, receive, send)
            return
        began, status, elsewhere = now(), 0, False
        request_id = new_request_id()
        scope.setdefault("state", {})[REQUEST_ID] = request_id
        own = _own_id(scope)

        async def sent(message: Message) -> None:
            nonlocal status, elsewhere
            if message["type"] == "http.response.start":
                status = message["status"]
                headers = cast(Headers, message["headers"])
                names = {name for name, _ in headers}
                # A hot route's own endpoint, reached another way, has already sent its ids and
                # writes its own line.
                elsewhere = _ID in names
                if not elsewhere:
                    ids = [(_ID, (own or request_id).encode())]
                    if (
                        b"x-gateway-request-id" not in names
                        and self._gateway().runtime.config.server.expose_headers
                    ):
                        ids.append((b"x-gateway-request-id", request_id.encode()))
                    added = cast(Headers, scope["state"].get(HEADERS, ()))
                    message["headers"] = [*headers, *ids, *added]
            await send(message)

        try:
            await self._inner(scope, receive, sent)
        finally:
            path = scope["path"]
            admin = path == "/admin" or path.startswith("/admin/")
            counted = COUNTED in scope["state"]
            if (admin or counted or status in _TOLD) and not elsewhere:
                self._tell(scope, (request_id, own), status, began, admin=admin)

    def _tell(
        self, scope: HTTPScope, ids: tuple[str, str], status: int, began: float, *, admin: bool
    ) -> None:
        """Write the access line. ids: the gateway's, and the client's own or ""."""
        gateway = self._gateway()
        runtime, state = gateway.runtime, scope["state"]
        failed = cast(FailedRequest, state.get(FAILED, _NOTHING))
        counted = cast("Counted | None", state.get(COUNTED))
        line = AccessLine(
            time=time.time(),
            request_id=ids[0],
            client_request_id=ids[1],
            surface="admin" if admin else "" if counted is None else counted.surface,
            status=status or 499,
            ms=milliseconds(now() - began),
            client_address=runtime.access.clients.of(scope),
            client_certificate=certificate_name(scope),
            method=scope["method"],
            path=scope["path"][:_LONGEST_PATH],
            actor=self._actor(scope) if admin else "",
            denied=state.get(DENIED, ""),
            error=failed.code,
            param=in_one_line(failed.param),
            message=in_one_line(failed.message),
            key="" if counted is None else counted.caller.name,
            team="" if counted is None else counted.caller.team,
            user="" if counted is None else counted.caller.user,
        )
        if counted is not None:
            gateway.log.metrics.count(grouped((line,)))
        gateway.log.access_log.add((line,))
        gateway.log.access_log.hand_over()
        if admin:
            answer = AdminAnswer(
                status=line.status,
                by=made_by(gateway, scope),
                denied=line.denied,
                error=line.error,
            )
            record_answer(gateway.side(AuditSide).log, scope, answer)

    def _actor(self, scope: HTTPScope) -> str:
        """Return who sent a request to /admin, also to a route that does not look."""
        known = cast(str, scope["state"].get(ACTOR, ""))
        if known or not self._gateway().runtime.access.admin_key.opens(scope["headers"]):
            return known
        return "admin key"


def _own_id(scope: HTTPScope) -> str:
    """Return the client's own id if it may be echoed, else ""."""
    for name, value in scope["headers"]:
        if name == _ID:
            return loggable_id(value)
    return ""
