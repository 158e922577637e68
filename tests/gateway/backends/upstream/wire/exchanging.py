"""Exchanges in one line, for tests of other aspects."""

import asyncio
from typing import Protocol

from strowger_gateway.adapters.base import Outbound
from strowger_gateway.gateway.backends.upstream.transport import Reply, Transport
from strowger_gateway.gateway.backends.upstream.wire import WireTransport
from strowger_gateway.gateway.config.schema.config import Tls
from strowger_gateway.schemas.holdings import ANONYMOUS, LEVEL, Holder
from tests.stand_ins.doubles import SOON_S

SECRET = "sk-very-secret"
HEADERS = (("content-type", "application/json"), ("authorization", f"Bearer {SECRET}"))


class Open(Protocol):
    """Makes a transport named "up" that is closed when the test ends."""

    def __call__(
        self, base_url: str, *, tls: Tls | None = None, max_connections: int = 4
    ) -> Transport: ...


class OpenWire(Protocol):
    """The same for our own client alone."""

    def __call__(
        self, base_url: str, *, max_connections: int = 4, idle_s: float = 60.0
    ) -> WireTransport: ...


class Nowhere(asyncio.Transport):
    """A transport that goes nowhere."""

    def write(self, data: bytes | bytearray | memoryview) -> None:
        return

    def get_write_buffer_size(self) -> int:
        return 0

    def abort(self) -> None:
        return


def soon(seconds: float = SOON_S) -> float:
    """A deadline that far away."""
    return asyncio.get_running_loop().time() + seconds


async def post(
    transport: Transport,
    body: bytes = b"{}",
    *,
    connect: float = SOON_S,
    head: float = SOON_S,
    target: str = "/v1/chat",
    method: str = "POST",
    holder: Holder = ANONYMOUS,
    level: int = LEVEL,
) -> Reply:
    """One exchange up to the answer's head; deadlines in seconds from now."""
    outbound = Outbound(target=target, headers=HEADERS, body=body, method=method)
    return await transport.exchange(
        outbound, connect_by=soon(connect), head_by=soon(head), holder=holder, level=level
    )


async def fetch(transport: Transport, body: bytes = b"{}", *, method: str = "POST") -> bytes:
    """A whole exchange; returns the answer's body."""
    reply = await post(transport, body, method=method)
    try:
        return await reply.body(soon(), 2**30)
    finally:
        await reply.aclose()
