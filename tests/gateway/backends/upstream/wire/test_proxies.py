"""A proxy receives what it needs, and no secrets."""

import base64
import traceback
from pathlib import Path

import pytest
import trustme

from strowger_gateway.gateway.backends.upstream.httpx_transport import HttpxTransport
from strowger_gateway.gateway.config.schema.config import Tls
from strowger_gateway.schemas.errors import InvalidConfig, UpstreamTimeout, UpstreamUnreachable
from tests.gateway.backends.upstream.wire.exchanging import SECRET, fetch, post
from tests.gateway.backends.upstream.wire.test_certificates import server_context
from tests.stand_ins.doubles import Peer, answering, raw_server, sized

pytestmark = pytest.mark.anyio

PASSWORD = "proxy-secret"
CREDENTIALS = base64.b64encode(f"user:{PASSWORD}".encode()).decode()


async def test_a_request_in_the_clear_is_handed_to_the_proxy() -> None:
    async with raw_server(answering(sized(b"hello"))) as proxy:
        transport = HttpxTransport(
            "http://api.example", name="up", proxy=_with_password(proxy.base_url)
        )

        body = await fetch(transport)
        await transport.aclose()

        request = proxy.requests[0]
        assert body == b"hello"
        assert request.path == "http://api.example/v1/chat"
        assert request.headers["proxy-authorization"] == f"Basic {CREDENTIALS}"


async def test_a_request_over_tls_passes_through_a_tunnel_that_sees_none_of_it(
    tmp_path: Path,
) -> None:
    async def tunnel(peer: Peer) -> None:
        heads.append(await peer.head())
        await peer.send(b"HTTP/1.1 200 Connection established\r\n\r\n")
        await peer.tunnel(server.port)

    heads: list[bytes] = []
    authority = trustme.CA()
    authority.cert_pem.write_to_path(tmp_path / "ca.pem")
    tls = server_context(authority, "localhost")
    async with raw_server(answering(sized(b"hello")), tls=tls, host="localhost") as server:
        async with raw_server(tunnel) as proxy:
            transport = HttpxTransport(
                server.base_url,
                name="up",
                tls=Tls(ca_file=str(tmp_path / "ca.pem")),
                proxy=_with_password(proxy.base_url),
            )

            bodies = [await fetch(transport) for _ in range(2)]
            await transport.aclose()

        assert bodies == [b"hello", b"hello"]
        assert len(server.connections) == len(heads) == 1
        assert heads[0].startswith(b"CONNECT localhost:%d HTTP/1.1\r\n" % server.port)
        assert SECRET.encode() not in heads[0]
        assert CREDENTIALS not in str(server.requests[0].headers)


async def test_a_proxy_that_refuses_makes_its_provider_unreachable() -> None:
    refusal = sized(b"", "407 Proxy Authentication Required")
    async with raw_server(answering([refusal, "close"])) as proxy:
        transport = HttpxTransport(
            "https://api.example", name="up", proxy=_with_password(proxy.base_url)
        )

        with pytest.raises(UpstreamUnreachable, match=r"^up: .*407") as caught:
            await post(transport)
        await transport.aclose()

        shown = "".join(traceback.format_exception(caught.value)) + repr(transport)
        assert PASSWORD not in shown
        assert CREDENTIALS not in shown


async def test_a_silent_proxy_costs_the_connect_deadline() -> None:
    async with raw_server(Peer.stay) as proxy:
        transport = HttpxTransport("https://api.example", name="up", proxy=proxy.base_url)

        with pytest.raises(UpstreamTimeout, match="no connection in time"):
            await post(transport, connect=0.2)
        await transport.aclose()

        await proxy.connections[0].gone()


@pytest.mark.parametrize("proxy", ["ftp://user:proxy-secret@host", "http://user:proxy-secret@:x"])
async def test_a_proxy_that_cannot_be_one_is_refused_without_showing_its_password(
    proxy: str,
) -> None:
    with pytest.raises(InvalidConfig, match="up: proxy must be") as caught:
        HttpxTransport("https://api.example", name="up", proxy=proxy)

    assert PASSWORD not in str(caught.value)


async def test_http_2_without_its_package_is_refused_by_name() -> None:
    pytest.importorskip("httpx")
    try:
        import h2  # noqa: F401 # pyright: ignore[reportMissingImports, reportUnusedImport] - optional
    except ImportError:
        with pytest.raises(InvalidConfig, match="needs the package h2"):
            HttpxTransport("https://api.example", name="up", http2=True)


def _with_password(url: str) -> str:
    return url.replace("http://", f"http://user:{PASSWORD}@")
