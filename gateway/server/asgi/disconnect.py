"""Detect that the client disconnects, at any moment, and stop the work immediately."""

import asyncio
from types import TracebackType

from strowger_gateway.gateway.platform.eventloop.inline_task import Canceller, canceller_in
from strowger_gateway.gateway.server.asgi.exchange import HotExchange
from strowger_gateway.schemas.errors import GatewayError


class ClientGone(GatewayError):
    """The client disconnected. It receives no answer; the status is for the log alone."""

    status = 499
    code = "client_closed_request"


class DisconnectGuard:
    """While entered, a disconnect cancels the current work, and the block exits with ClientGone.

    Enter it after the body was read. Call `disarm` before the last byte of the answer; after that
    a disconnect is the normal end.
    """

    __slots__ = ("_armed", "_exchange", "_work", "gone")

    def __init__(self, exchange: HotExchange) -> None:
        self.gone = False
        self._exchange = exchange
        self._armed = True

    def __enter__(self) -> "DisconnectGuard":
        self._work: Canceller = canceller_in(self._exchange.turn)
        self._exchange.on_gone(self._cancel)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._armed = False
        self._exchange.on_gone(None)
        if self.gone and isinstance(error, asyncio.CancelledError):
            self._work.uncancel()
            raise ClientGone("the client closed the connection") from error

    def disarm(self) -> None:
        self._armed = False

    def _cancel(self) -> None:
        if self._armed and not self.gone:
            self.gone = True
            self._work.cancel()
