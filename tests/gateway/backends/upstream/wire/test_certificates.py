"""TLS: trusted certificates, and our client certificate."""

import asyncio
import ssl
from pathlib import Path

import pytest
import trustme

from strowger_gateway.gateway.config.schema.config import Tls
from strowger_gateway.schemas.errors import InvalidConfig, UpstreamBroken, UpstreamUnreachable
from tests.gateway.backends.upstream.wire.exchanging import Open, fetch, post, soon
from tests.stand_ins.doubles import Peer, answering, chunked, raw_server, sized

pytestmark = pytest.mark.anyio


@pytest.fixture(scope="module")
def authority() -> trustme.CA:
    return trustme.CA()


@pytest.fixture
def ca_file(authority: trustme.CA, tmp_path: Path) -> str:
    path = tmp_path / "ca.pem"
    authority.cert_pem.write_to_path(path)
    return str(path)


def server_context(authority: trustme.CA, *names: str) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert(*names).configure_cert(context)  # pyright: ignore[reportUnknownMemberType] - pyOpenSSL is not here
    return context


async def test_a_certificate_of_a_trusted_authority_is_accepted(
    authority: trustme.CA, ca_file: str, open_transport: Open
) -> None:
    big = b"x" * 3_000_000
    async with raw_server(
        answering(sized(b"hello"), chunked(*[b"x" * 1000] * 3000)),
        tls=server_context(authority, "localhost"),
        host="localhost",
    ) as server:
        transport = open_transport(server.base_url, tls=Tls(ca_file=ca_file))

        bodies = [await fetch(transport, big), await fetch(transport)]

        assert bodies == [b"hello", big]
        assert server.requests[0].body == big
        assert len(server.connections) == 1


async def test_a_certificate_for_an_address_is_accepted(
    authority: trustme.CA, ca_file: str, open_transport: Open
) -> None:
    tls = server_context(authority, "127.0.0.1")
    async with raw_server(answering(sized(b"hello")), tls=tls) as server:
        transport = open_transport(server.base_url, tls=Tls(ca_file=ca_file))

        assert await fetch(transport) == b"hello"


async def test_a_certificate_of_a_stranger_is_refused(
    authority: trustme.CA, open_transport: Open
) -> None:
    tls = server_context(authority, "127.0.0.1")
    async with raw_server(answering(sized(b"hello")), tls=tls) as server:
        transport = open_transport(server.base_url)

        with pytest.raises(UpstreamUnreachable, match=r"^up: .*certificate"):
            await post(transport)

        assert not server.requests


async def test_a_certificate_for_another_host_is_refused(
    authority: trustme.CA, ca_file: str, open_transport: Open
) -> None:
    tls = server_context(authority, "other.example")
    async with raw_server(answering(sized(b"hello")), tls=tls) as server:
        transport = open_transport(server.base_url, tls=Tls(ca_file=ca_file))

        with pytest.raises(UpstreamUnreachable, match=r"^up: .*certificate"):
            await post(transport)

        assert not server.requests


async def test_without_verification_any_certificate_will_do(
    authority: trustme.CA, open_transport: Open
) -> None:
    tls = server_context(authority, "other.example")
    async with raw_server(answering(sized(b"hello")), tls=tls) as server:
        transport = open_transport(server.base_url, tls=Tls(verify=False))

        assert await fetch(transport) == b"hello"


async def test_a_client_certificate_is_sent_to_a_server_that_requests_it(
    authority: trustme.CA, ca_file: str, tmp_path: Path, open_transport: Open
) -> None:
    tls = server_context(authority, "127.0.0.1")
    tls.verify_mode = ssl.CERT_REQUIRED
    authority.configure_trust(tls)  # pyright: ignore[reportUnknownMemberType] - pyOpenSSL is not here
    ours = authority.issue_cert("gateway.example")
    (tmp_path / "cert.pem").write_bytes(b"".join(blob.bytes() for blob in ours.cert_chain_pems))
    ours.private_key_pem.write_to_path(tmp_path / "key.pem")
    config = Tls(
        ca_file=ca_file,
        client_cert=str(tmp_path / "cert.pem"),
        client_key=str(tmp_path / "key.pem"),
    )
    async with raw_server(answering(sized(b"hello")), tls=tls) as server:
        with_one = open_transport(server.base_url, tls=config)
        without = open_transport(server.base_url, tls=Tls(ca_file=ca_file))

        assert await fetch(with_one) == b"hello"
        # in TLS 1.3 the refusal comes after the handshake, when the request may be on its way
        with pytest.raises((UpstreamUnreachable, UpstreamBroken), match=r"^up: "):
            await post(without)

        assert "gateway.example" in str(server.connections[0].certificate)
        assert len(server.requests) == 1


async def test_a_body_without_a_length_ends_with_the_connection(
    authority: trustme.CA, ca_file: str, open_transport: Open
) -> None:
    tls = server_context(authority, "127.0.0.1")
    answer = b"HTTP/1.1 200 OK\r\n\r\nhello"
    async with raw_server(answering([answer, "close"]), tls=tls) as server:
        transport = open_transport(server.base_url, tls=Tls(ca_file=ca_file))

        assert await fetch(transport) == b"hello"


async def test_a_reader_that_does_not_read_stalls_the_server_and_loses_nothing(
    authority: trustme.CA, ca_file: str, open_transport: Open
) -> None:
    total = 40_000_000

    async def script(peer: Peer) -> None:
        await peer.request()
        await peer.send(b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n" % total)
        for _ in range(total // 50_000):
            await peer.send(b"x" * 50_000)
        await peer.stay()

    async with raw_server(script, tls=server_context(authority, "127.0.0.1")) as server:
        reply = await post(open_transport(server.base_url, tls=Tls(ca_file=ca_file)))
        before = -1
        while before != server.connections[0].sent:
            before = server.connections[0].sent
            await asyncio.sleep(0.2)

        body = await reply.body(soon(30.0), total)
        await reply.aclose()

        assert before < total / 2
        assert len(body) == total


async def test_plain_text_where_tls_was_expected_is_unreachable(open_transport: Open) -> None:
    async def script(peer: Peer) -> None:
        await peer.send(sized(b"use TLS", "400 Bad Request"))
        await peer.stay()

    async with raw_server(script) as server:
        transport = open_transport(server.base_url.replace("http", "https"))

        with pytest.raises(UpstreamUnreachable, match=r"^up: "):
            await post(transport)


@pytest.mark.parametrize(
    ("tls", "field"),
    [
        (Tls(ca_file="/no/such/file"), "ca_file"),
        (Tls(client_cert="/no/such/file"), "client_cert"),
        (Tls(client_key="/no/such/file"), "client_key"),
    ],
)
async def test_files_that_cannot_be_used_are_named_at_the_start(
    tls: Tls, field: str, open_transport: Open
) -> None:
    with pytest.raises(InvalidConfig, match=rf"^up: tls\.{field}"):
        open_transport("https://api.example", tls=tls)
