"""Cutting off clients that are too slow to say what they want."""

import asyncio
import sys
from collections.abc import Callable, Collection
from typing import Protocol, cast

from litestar.types import HTTPScope, Receive, ReceiveMessage

from gateway.clock import now
from schemas.errors import RequestTimeout

LEAST_RATE = 500
"""Bytes a second of a body: what Apache asks for (mod_reqtimeout), and the slowest of mobile links
has twice. https://httpd.apache.org/docs/2.4/mod/mod_reqtimeout.html"""

_LOOKS, _MOST_BETWEEN_S = 10, 1.0
_LATE = "strowger.late"


class Sender(Protocol):
    """A client's connection."""

    def look(self, at: float, limit_s: float) -> None:
        """Cut it off if what it has begun to send should be here by now. at: gateway.clock."""
        ...


class Patience:
    """One look at all connections, ten times in each limit and at least once a second.

    Requests pay nothing for it: no timer is theirs, and nothing is noted of one that comes whole.
    limit_s: asked at each look, as the configuration may change.
    """

    def __init__(self, connections: Collection[Sender], limit_s: Callable[[], float]) -> None:
        self._connections = connections
        self._limit_s = limit_s

    async def watch(self) -> None:
        """Until cancelled."""
        while True:
            await asyncio.sleep(min(self._limit_s() / _LOOKS, _MOST_BETWEEN_S))
            at, limit_s = now(), self._limit_s()
            for one in tuple(self._connections):
                one.look(at, limit_s)


if sys.platform == "linux":
    from fcntl import ioctl
    from termios import TIOCOUTQ

    def _in_kernel(transport: asyncio.Transport) -> int:
        """https://man7.org/linux/man-pages/man7/tcp.7.html, under SIOCOUTQ"""
        try:
            number = cast(int, transport.get_extra_info("socket").fileno())
            return int.from_bytes(ioctl(number, TIOCOUTQ, bytes(4)), sys.byteorder)
        except OSError:  # it closes just now
            return 0

else:

    def _in_kernel(transport: asyncio.Transport) -> int:
        return 0


def unread(transport: asyncio.Transport) -> int:
    """Bytes of answers that the client's machine has not taken yet.

    Those in the kernel too, where it tells: it makes room for more by a third of its buffer only.
    """
    return transport.get_write_buffer_size() + _in_kernel(transport)


def call_late(scope: HTTPScope, limit_s: float) -> None:
    """Whoever reads this request's body next, or waits for it, hears that it is late."""
    scope["state"][_LATE] = limit_s


def check_in_time(scope: HTTPScope) -> None:
    """For readers of a piece that is not the last. Raises RequestTimeout."""
    limit_s = cast("float | None", scope["state"].get(_LATE))
    if limit_s is not None:
        raise RequestTimeout(
            f"the body comes too slowly: less than {LEAST_RATE} bytes a second for {limit_s:g} s"
        )


def in_time(scope: HTTPScope, receive: Receive) -> Receive:
    """`receive` that raises RequestTimeout, for readers that know nothing of lateness."""

    async def received() -> ReceiveMessage:
        message = await receive()
        if message["type"] == "http.request" and message["more_body"]:
            check_in_time(scope)
        return message

    return received
