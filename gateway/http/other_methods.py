"""Answer requests to a hot route with another method than POST."""

from typing import Final

from strowger_gateway.gateway.assembly.gateway import Gateway
from strowger_gateway.gateway.server.asgi.exchange import HotExchange
from strowger_gateway.gateway.server.asgi.response import ResponseWriter
from strowger_gateway.gateway.surfaces.base import Surface
from strowger_gateway.schemas.errors import GatewayError, MethodNotAllowed, UpgradeRefused

_ALLOW: Final = ("POST", "OPTIONS")
_WEBSOCKETS: Final = frozenset({"/v1/responses"})
"""Paths at which OpenAI's clients offer a WebSocket, and fall back to POST when told so. Elsewhere
an offer is ignored."""

_WEBSOCKET: Final = b"sec-websocket-key"
"""https://www.rfc-editor.org/rfc/rfc6455#section-4.1; every client sends it."""


async def answer_other_method(
    exchange: HotExchange, surface: Surface, gateway: Gateway, response: ResponseWriter
) -> None:
    """Answer a preflight, and refuse everything else."""
    method = exchange.scope["method"]
    if method == "OPTIONS":
        names = ", ".join(_ALLOW)
        origin = exchange.fields.get(b"origin") or b""
        extra = [(b"allow", names.encode()), *gateway.cors.preflight(origin, names)]
        await response.empty(204, extra)
        return
    error: GatewayError
    if _WEBSOCKET in exchange.fields and exchange.scope["path"] in _WEBSOCKETS:
        error = UpgradeRefused("this route has no WebSocket; send POST, with stream: true")
    else:
        error = MethodNotAllowed(f"this route takes POST, not {method}", allow=_ALLOW)
    await response.error(error, b"" if method == "HEAD" else surface.error(error))
