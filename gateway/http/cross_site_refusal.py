"""Refuse a request before anything of it is read."""

from strowger_gateway.gateway.server.asgi.cross_site import CrossSiteGuard
from strowger_gateway.gateway.server.asgi.exchange import HotExchange
from strowger_gateway.gateway.surfaces.error_envelopes import envelope
from strowger_gateway.schemas.errors import Forbidden, GatewayError


async def refuse(error: GatewayError, exchange: HotExchange) -> None:
    """Answer in the error format of the path's surface, and close."""
    scope = exchange.scope
    body = b"" if scope["method"] == "HEAD" else envelope(scope["path"])(error)
    headers = [
        (b"content-type", b"application/json"),
        (b"content-length", b"%d" % len(body)),
        (b"connection", b"close"),
    ]
    await exchange.whole(error.status, headers, body)


async def turned_away(door: CrossSiteGuard, exchange: HotExchange) -> bool:
    """Whether a page of another site sends it; it is answered then, and nothing of it is read."""
    try:
        door.check(exchange.scope)
    except Forbidden as exc:
        await refuse(exc, exchange)
        return True
    return False
