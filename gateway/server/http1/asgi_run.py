"""Run an ASGI application on an exchange: for every path that is not hot.

https://asgi.readthedocs.io/en/latest/specs/www.html
"""

import logging
from typing import cast

from litestar.types import ASGIApp, Message, Send

from strowger_gateway.gateway.server.http1.exchange import Exchange
from strowger_gateway.gateway.server.http1.response_head import Headers

_log = logging.getLogger("strowger")

_FAILED = b"Internal Server Error"


class AsgiAnswer:
    """ASGI's `send`, onto an exchange."""

    def __init__(self, exchange: Exchange) -> None:
        self._exchange = exchange
        self._left: int | None = None
        """Bytes of the body that the announced content-length still allows."""

    async def send(self, message: Message) -> None:
        """See ASGI. Raises RuntimeError for messages out of order, and for a wrong length."""
        exchange = self._exchange
        if message["type"] == "http.response.start":
            if exchange.started:
                raise RuntimeError("the answer was started twice")
            headers: Headers = [(name.lower(), value) for name, value in message["headers"]]
            for name, value in headers:
                if name == b"content-length":
                    self._left = int(value)
            exchange.begin_answer(message["status"], headers, sized=self._left is not None)
        elif message["type"] == "http.response.body":
            if not (exchange.started or exchange.disconnected):
                raise RuntimeError("a body was sent before its head")
            body, more = message["body"], message["more_body"]
            if self._left is not None and exchange.scope["method"] != "HEAD":
                self._left -= len(body)
                if self._left < 0 or (self._left and not more):
                    raise RuntimeError("the body does not have its content-length")
            await exchange.put(body, more=more)


def _complete(send: Send) -> Send:
    """Fill in what ASGI lets an application leave out of a body."""

    async def filled(message: Message) -> None:
        if message["type"] == "http.response.body":
            given = cast("dict[str, object]", message)
            message = cast(
                Message,
                {
                    "type": "http.response.body",
                    "body": given.get("body", b""),
                    "more_body": given.get("more_body", False),
                },
            )
        await send(message)

    return filled


async def run_asgi(application: ASGIApp, exchange: Exchange) -> None:
    """Answer the exchange by the application; log its bugs and answer 500, or cut the answer."""
    try:
        await application(exchange.scope, exchange.receive, _complete(AsgiAnswer(exchange).send))
    except Exception:  # noqa: BLE001  the application's bug
        _log.exception("the application failed; its request gets 500 or a cut answer")
    if exchange.disconnected or exchange.complete:
        return
    if exchange.started:
        exchange.abandon()
        return
    headers = [
        (b"content-type", b"text/plain; charset=utf-8"),
        (b"content-length", b"%d" % len(_FAILED)),
        (b"connection", b"close"),
    ]
    await exchange.whole(500, headers, _FAILED)
