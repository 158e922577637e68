"""The general transport at httpx's edge: what it sends and how it reports what httpx raises.

respx answers in place of a server, also under https and other hosts' names; tests of sockets and
times use servers on loopback.
"""

from collections.abc import AsyncGenerator

import httpx
import pytest
import respx

from strowger_gateway.gateway.backends.upstream.httpx_transport import HttpxTransport
from strowger_gateway.gateway.backends.upstream.transport import AnswerTooLarge
from strowger_gateway.schemas.errors import (
    UpstreamBroken,
    UpstreamError,
    UpstreamSilent,
    UpstreamUnreachable,
)
from tests.gateway.backends.upstream.wire.exchanging import HEADERS, SECRET, post, soon

pytestmark = pytest.mark.anyio

ORIGIN = "https://api.vendor.test"


@pytest.fixture
async def transport() -> AsyncGenerator[HttpxTransport]:
    made = HttpxTransport(ORIGIN, name="up")
    yield made
    await made.aclose()


async def test_a_vendor_gets_the_adapters_headers_and_none_of_httpxs_own(
    transport: HttpxTransport, respx_mock: respx.MockRouter
) -> None:
    route = respx_mock.post(f"{ORIGIN}/v1/chat?beta=true").respond(200, content=b"hello")

    reply = await post(transport, b'{"a":1}', target="/v1/chat?beta=true")

    assert await reply.body(soon(), 100) == b"hello"
    await reply.aclose()
    sent = route.calls.last.request
    assert sent.content == b'{"a":1}'
    assert sent.headers.multi_items() == [
        ("host", "api.vendor.test"),
        *HEADERS,
        ("accept-encoding", "identity"),
        ("content-length", "7"),
    ]


@pytest.mark.parametrize(
    ("raised", "reported"),
    [
        (httpx.ConnectError("refused at https://api.vendor.test"), UpstreamUnreachable),
        (httpx.ProxyError("407"), UpstreamUnreachable),
        (httpx.PoolTimeout("none"), UpstreamUnreachable),
        (httpx.RemoteProtocolError("reset"), UpstreamUnreachable),
    ],
    ids=lambda one: one.__name__ if isinstance(one, type) else type(one).__name__,
)
async def test_a_fault_before_the_request_is_sent_lets_another_backend_answer(
    raised: Exception,
    reported: type[UpstreamError],
    transport: HttpxTransport,
    respx_mock: respx.MockRouter,
) -> None:
    respx_mock.post(f"{ORIGIN}/v1/chat").mock(side_effect=raised)

    with pytest.raises(reported, match="up: the exchange failed") as caught:
        await post(transport)

    assert SECRET not in caught.value.logged
    assert "vendor.test" not in caught.value.message


class _Cut(httpx.AsyncByteStream):
    """An answer that ends with a fault."""

    def __init__(self, fault: Exception) -> None:
        self._fault = fault

    async def __aiter__(self) -> AsyncGenerator[bytes]:
        yield b"first"
        raise self._fault


@pytest.mark.parametrize(
    ("fault", "reported"),
    [
        (httpx.ReadError("reset"), UpstreamBroken),
        (httpx.RemoteProtocolError("incomplete chunked read"), UpstreamBroken),
        (TimeoutError(), UpstreamSilent),
    ],
    ids=lambda one: one.__name__ if isinstance(one, type) else type(one).__name__,
)
async def test_an_answer_that_breaks_off_is_an_error_after_what_has_arrived(
    fault: Exception,
    reported: type[UpstreamError],
    transport: HttpxTransport,
    respx_mock: respx.MockRouter,
) -> None:
    respx_mock.post(f"{ORIGIN}/v1/chat").respond(200, stream=_Cut(fault))

    reply = await post(transport)

    assert await reply.chunk(soon()) == b"first"
    for _ in range(2):
        with pytest.raises(reported):
            await reply.chunk(soon())
    await reply.aclose()


async def test_an_answer_over_the_limit_is_not_read_to_its_end(
    transport: HttpxTransport, respx_mock: respx.MockRouter
) -> None:
    respx_mock.post(f"{ORIGIN}/v1/chat").respond(200, content=b"x" * 101)

    reply = await post(transport)

    with pytest.raises(AnswerTooLarge, match="over 100 bytes"):
        await reply.body(soon(), 100)
    await reply.aclose()
