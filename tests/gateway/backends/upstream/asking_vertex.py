"""A request to Vertex on loopback, over a transport that adds Google's tokens."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from strowger_gateway.adapters.base import Outbound
from strowger_gateway.adapters.registry import Registry
from strowger_gateway.gateway.backends.upstream.credentials.factory import credentials_of
from strowger_gateway.gateway.backends.upstream.credentials.transport import AuthorizedTransport
from strowger_gateway.gateway.backends.upstream.wire import WireTransport
from strowger_gateway.gateway.config.schema.config import Provider as Configured
from strowger_gateway.gateway.config.schema.connection import Google, Timeouts
from tests.gateway.backends.upstream.wire.exchanging import soon
from tests.stand_ins.google_cloud import (
    VERTEX,
)
from tests.stand_ins.provider import Provider

ASK = Outbound(
    target=f"{VERTEX}/models/gemini-2.5-flash:generateContent",
    headers=(("content-type", "application/json"),),
    body=b'{"contents": [{"role": "user", "parts": [{"text": "hi"}]}]}',
)


@asynccontextmanager
async def vertex(server: Provider, google: Google) -> AsyncGenerator[AuthorizedTransport]:
    configured = Configured(
        name="vertex", adapter="gemini", google=google, timeouts=Timeouts(connect_s=1)
    )
    credentials = credentials_of(configured, server.origin + VERTEX, Registry(()))
    assert credentials is not None
    transport = AuthorizedTransport(
        WireTransport(server.origin, name="vertex", max_connections=100), credentials
    )
    try:
        yield transport
    finally:
        await transport.aclose()


async def ask(transport: AuthorizedTransport) -> int:
    reply = await transport.exchange(ASK, connect_by=soon(), head_by=soon())
    try:
        await reply.body(soon(), 10_000)
        return reply.status
    finally:
        await reply.aclose()
