"""Cut off clients that send or read too slowly."""

import asyncio
import sys
from collections.abc import Callable, Collection
from typing import Protocol, cast

from litestar.types import HTTPScope, Receive, ReceiveMessage

from strowger_gateway.gateway.platform.clock import now
from strowger_gateway.gateway.server.asgi.exchange import ClientGone
from strowger_gateway.schemas.errors import RequestTimeout

LEAST_RATE = 500
"""Minimum bytes per second of a body: Apache's default (mod_reqtimeout), and half of what the
slowest mobile links have. https://httpd.apache.org/docs/2.4/mod/mod_reqtimeout.html"""

_LOOKS, _MOST_BETWEEN_S = 10, 1.0
_LATE = "strowger.late"


class ReapedConnection(Protocol):
    """A client's connection."""

    def check_deadline(self, at: float, limit_s: float) -> None:
        """Cut the client off if what it has started to send is overdue. at:
        gateway/platform/clock.py.
        """
        ...


class SlowClientReaper:
    """Check all connections ten times per limit, and at least once per second.

    Requests pay nothing for it: they have no timers, and nothing is stored for a request that
    arrives whole. limit_s: called at each check, as the configuration may change.
    """

    def __init__(
        self, connections: Collection[ReapedConnection], limit_s: Callable[[], float]
    ) -> None:
        self._connections = connections
        self._limit_s = limit_s

    async def watch(self) -> None:
        """Run until cancelled."""
        while True:
            await asyncio.sleep(min(self._limit_s() / _LOOKS, _MOST_BETWEEN_S))
            at, limit_s = now(), self._limit_s()
            for one in tuple(self._connections):
                one.check_deadline(at, limit_s)


if sys.platform == "linux":
    from fcntl import ioctl
    from termios import FIONREAD, TIOCOUTQ

    def _in_kernel(transport: asyncio.Transport) -> int:
        """https://man7.org/linux/man-pages/man7/tcp.7.html, under SIOCOUTQ"""
        return _queued(transport, TIOCOUTQ)

    def arrived_bytes(transport: asyncio.Transport) -> int:
        """Return the bytes that have arrived from the client and are not read; 0 if unknown."""
        return _queued(transport, FIONREAD)

    def _queued(transport: asyncio.Transport, request: int) -> int:
        try:
            number = cast(int, transport.get_extra_info("socket").fileno())
            return int.from_bytes(ioctl(number, request, bytes(4)), sys.byteorder)
        except OSError:  # the socket is closing
            return 0

else:

    def _in_kernel(transport: asyncio.Transport) -> int:
        return 0

    def arrived_bytes(transport: asyncio.Transport) -> int:
        """Return the bytes that have arrived from the client and are not read; 0 if unknown."""
        return 0


def unread_bytes(transport: asyncio.Transport) -> int:
    """Return the bytes of answers that the client's machine has not received yet.

    Includes those in the kernel, if it reports them: it frees its buffer only a third at a time.
    """
    return transport.get_write_buffer_size() + _in_kernel(transport)


def set_receive_deadline(scope: HTTPScope, limit_s: float) -> None:
    """Mark the request as late; the next reader of its body raises RequestTimeout."""
    scope["state"][_LATE] = limit_s


def check_receive_deadline(scope: HTTPScope) -> None:
    """Raise RequestTimeout if the request is late; for readers of a piece that is not the last."""
    limit_s = cast("float | None", scope["state"].get(_LATE))
    if limit_s is not None:
        raise RequestTimeout(
            f"the body arrives too slowly: under {LEAST_RATE} bytes per second for {limit_s:g} s"
        )


def with_body_errors(scope: HTTPScope, receive: Receive) -> Receive:
    """Wrap `receive` for readers of a body that check neither its pace nor that it is whole.

    It raises RequestTimeout when the request is late, and ClientGone when the body ends too early.
    """
    more_body = True

    async def received() -> ReceiveMessage:
        nonlocal more_body
        message = await receive()
        if message["type"] == "http.request":
            more_body = message["more_body"]
            if more_body:
                check_receive_deadline(scope)
        elif more_body:
            raise ClientGone("the client closed the connection before the body's end")
        return message

    return received
