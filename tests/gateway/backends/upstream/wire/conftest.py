"""Both transports on both event loops."""

from collections.abc import AsyncGenerator

import pytest

from strowger_gateway.gateway.backends.upstream.httpx_transport import HttpxTransport
from strowger_gateway.gateway.backends.upstream.transport import Transport
from strowger_gateway.gateway.backends.upstream.wire import WireTransport
from strowger_gateway.gateway.config.schema.config import Tls
from tests.gateway.backends.upstream.wire.exchanging import Open, OpenWire


@pytest.fixture(params=[False, True], ids=["asyncio", "uvloop"])
def anyio_backend(request: pytest.FixtureRequest) -> tuple[str, dict[str, bool]]:
    return "asyncio", {"use_uvloop": request.param}


@pytest.fixture(params=[WireTransport, HttpxTransport], ids=["wire", "httpx"])
async def open_transport(
    request: pytest.FixtureRequest, anyio_backend: object
) -> AsyncGenerator[Open, None]:
    opened: list[Transport] = []

    def make(base_url: str, *, tls: Tls | None = None, max_connections: int = 4) -> Transport:
        kind: type[WireTransport | HttpxTransport] = request.param
        transport = kind(base_url, name="up", tls=tls, max_connections=max_connections)
        opened.append(transport)
        return transport

    yield make
    for transport in opened:
        await transport.aclose()


@pytest.fixture
async def open_wire(anyio_backend: object) -> AsyncGenerator[OpenWire, None]:
    opened: list[WireTransport] = []

    def make(base_url: str, *, max_connections: int = 4, idle_s: float = 60.0) -> WireTransport:
        transport = WireTransport(
            base_url, name="up", max_connections=max_connections, idle_s=idle_s
        )
        opened.append(transport)
        return transport

    yield make
    for transport in opened:
        await transport.aclose()
