"""The engine's port: who may connect, who is refused by which name, and what that costs."""

import asyncio
import socket
import ssl
from contextlib import suppress
from pathlib import Path

import pytest
import trustme

from strowger_gateway.local_engine.listening.tcp_listener import Listening, TcpListener
from strowger_gateway.local_engine.protocol.address import TcpAddress, parse_address
from strowger_gateway.local_engine.protocol.frames import ConnectionRefusal, Ready
from strowger_gateway.local_engine.protocol.mutual_tls import MutualTls
from strowger_gateway.schemas.errors import InvalidConfig
from tests.gateway.certificates import Issued
from tests.local_engine.listening.ports import Greeter, listening, paths_of

pytestmark = pytest.mark.anyio


def client(issued: Issued) -> ssl.SSLContext:
    return MutualTls(paths_of(issued), server=False).context()


class Authority:
    """Certificates of one authority, in its own folder."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir()
        self.folder = folder
        self.ca = trustme.CA()
        self.engine = self.issue("engine.test")

    def issue(self, name: str, stem: str = "engine", days: float = 90.0) -> Issued:
        return Issued.to(self.folder, name, authority=self.ca, stem=stem, subject=name, days=days)


@pytest.fixture
def ours(tmp_path: Path) -> Authority:
    return Authority(tmp_path / "ours")


async def test_a_gateway_with_a_certificate_of_the_authority_is_greeted(ours: Authority) -> None:
    gateway = ours.issue("gateway-a", "gateway")
    async with listening(ours.engine, allow=("gateway-a",)) as port:
        assert await port.greeted(client(gateway)) == Ready(models=("m",))


async def test_an_expired_certificate_is_refused_by_that_name_on_both_sides(
    ours: Authority,
) -> None:
    expired = ours.issue("gateway-a", "expired", days=-1)
    async with listening(ours.engine) as port:
        with pytest.raises(ssl.SSLError, match="certificate expired"):
            await port.greeted(client(expired))

        assert "certificate has expired" in await port.logged("not accepted")


async def test_a_certificate_of_another_authority_is_refused_by_that_name_on_both_sides(
    ours: Authority, tmp_path: Path
) -> None:
    theirs = Authority(tmp_path / "theirs")
    stranger = theirs.issue("gateway-a", "gateway")
    stranger.ca.write_bytes(ours.engine.ca.read_bytes())  # it trusts the engine
    async with listening(ours.engine) as port:
        with pytest.raises(ssl.SSLError, match="unknown ca"):
            await port.greeted(client(stranger))

        assert "issuer certificate" in await port.logged("not accepted")


async def test_a_client_without_a_certificate_is_refused_by_that_name_on_both_sides(
    ours: Authority,
) -> None:
    context = ssl.create_default_context(cafile=ours.engine.ca)
    async with listening(ours.engine) as port:
        with pytest.raises(ssl.SSLError, match="certificate required"):
            await port.greeted(context)

        assert await port.logged("it sent no client certificate")


async def test_a_name_that_is_not_allowed_is_told_to_gateway_and_log(ours: Authority) -> None:
    other = ours.issue("gateway-b", "other")
    async with listening(ours.engine, allow=("gateway-a", "gateway-c")) as port:
        got = await port.greeted(client(other))

        assert got == ConnectionRefusal(
            why="the certificate of gateway-b is not admitted (--tls-allow)"
        )
        assert await port.logged("gateway-b")


async def test_an_engine_with_the_wrong_name_is_not_spoken_to(ours: Authority) -> None:
    elsewhere = ours.issue("other-engine.test", "elsewhere")
    gateway = ours.issue("gateway-a", "gateway")
    async with listening(elsewhere) as port:
        with pytest.raises(ssl.SSLCertVerificationError, match=r"engine\.test"):
            await port.greeted(client(gateway))


async def test_cleartext_to_a_tls_port_is_named_in_the_log(ours: Authority) -> None:
    async with listening(ours.engine) as port:
        where = port.listener.address
        reader, writer = await asyncio.open_connection(where.host, where.port)
        writer.write(b"\0\0\0\5hello")
        with suppress(ConnectionError):
            await reader.read()
        writer.close()

        assert await port.logged("does not speak TLS")


async def test_a_probe_of_the_port_leaves_no_line(ours: Authority) -> None:
    """Health checks connect and close."""
    gateway = ours.issue("gateway-a", "gateway")
    async with listening(ours.engine) as port:
        where = port.listener.address
        _, writer = await asyncio.open_connection(where.host, where.port)
        writer.close()
        await writer.wait_closed()
        assert isinstance(await port.greeted(client(gateway)), Ready)

        assert port.said == []


async def test_a_handshake_that_does_not_end_is_cut_off(ours: Authority) -> None:
    async with listening(ours.engine, handshake_s=0.2) as port:
        where = port.listener.address
        reader, writer = await asyncio.open_connection(where.host, where.port)

        assert await reader.read() == b""
        assert await port.logged("no TLS handshake in time")
        writer.close()


async def test_one_host_cannot_hold_every_handshake(ours: Authority) -> None:
    gateway = ours.issue("gateway-a", "gateway")
    async with listening(ours.engine) as port:
        where = port.listener.address
        idle = [await asyncio.open_connection(where.host, where.port) for _ in range(17)]
        assert await port.logged("handshakes at a time")
        for _, writer in idle:
            writer.close()
        async with asyncio.timeout(60):
            while True:
                with suppress(OSError):
                    assert isinstance(await port.greeted(client(gateway)), Ready)
                    break


async def test_connections_beyond_the_limit_are_refused_with_the_reason(ours: Authority) -> None:
    gateway = ours.issue("gateway-a", "gateway")
    async with listening(ours.engine, connections=1) as port:
        where = port.listener.address
        reader, writer = await asyncio.open_connection(
            where.host, where.port, ssl=client(gateway), server_hostname="engine.test"
        )
        await reader.read(1)

        refused = await port.greeted(client(gateway))
        writer.close()

        assert isinstance(refused, ConnectionRefusal)
        assert "1 gateways are connected, which is the limit" in refused.why


async def test_a_replaced_certificate_is_used_for_new_connections(ours: Authority) -> None:
    gateway = ours.issue("gateway-a", "gateway")
    async with listening(ours.engine) as port:
        await port.greeted(client(gateway))
        ours.issue("renewed.test")

        with pytest.raises(ssl.SSLCertVerificationError, match=r"not valid for 'engine\.test'"):
            await port.greeted(client(gateway))


async def test_broken_files_keep_the_certificate_in_use_and_are_logged(ours: Authority) -> None:
    gateway = ours.issue("gateway-a", "gateway")
    async with listening(ours.engine) as port:
        ours.engine.key.write_text("no key")

        assert isinstance(await port.greeted(client(gateway)), Ready)
        assert await port.logged("the previous certificate stays in use")


async def test_loopback_needs_no_tls_and_every_other_address_does() -> None:
    async with listening(None) as port:
        assert await port.greeted(None) == Ready(models=("m",))
    with pytest.raises(InvalidConfig, match="--tls-cert, --tls-key and --tls-ca"):
        TcpListener(Listening(address=TcpAddress("0.0.0.0", 0)), Greeter, print)


async def test_an_address_in_use_is_an_error_that_names_it() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        where = TcpAddress("127.0.0.1", taken.getsockname()[1])
        with pytest.raises(InvalidConfig, match=f"--listen {where}: "):
            TcpListener(Listening(address=where), Greeter, print)


@pytest.mark.parametrize(
    ("text", "host", "port", "loopback"),
    [
        ("10.0.0.5:9000", "10.0.0.5", 9000, False),
        ("[::1]:9000", "::1", 9000, True),
        ("engine-0.engines.default.svc:9000", "engine-0.engines.default.svc", 9000, False),
        ("127.0.0.1:0", "127.0.0.1", 0, True),
        ("localhost:1", "localhost", 1, True),
    ],
)
def test_addresses_are_read_and_written_alike(
    text: str, host: str, port: int, loopback: bool
) -> None:
    address = parse_address(text)

    assert (address.host, address.port, address.loopback) == (host, port, loopback)
    assert str(address) == text


@pytest.mark.parametrize("text", ["", "host", ":9000", "host:", "host:70000", "::1:9000", "a b:1"])
def test_other_texts_are_no_addresses(text: str) -> None:
    with pytest.raises(ValueError, match="HOST:PORT"):
        parse_address(text)
