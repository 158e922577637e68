"""Dialing: choice among a name's addresses, and socket options."""

import asyncio
import socket
import ssl
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
import trustme

from strowger_gateway.gateway.backends.upstream.origin import Origin, origin_of
from strowger_gateway.gateway.backends.upstream.wire import WireTransport
from strowger_gateway.gateway.backends.upstream.wire.connection import HttpConnection
from strowger_gateway.gateway.backends.upstream.wire.deadlines import Deadlines
from strowger_gateway.gateway.backends.upstream.wire.dialing import Address, Dialer, Resolve
from strowger_gateway.gateway.backends.upstream.wire.http_message import Limits
from strowger_gateway.gateway.backends.upstream.wire.pool import Pool
from strowger_gateway.schemas.errors import UpstreamTimeout, UpstreamUnreachable
from tests.gateway.backends.upstream.wire.exchanging import fetch, soon
from tests.stand_ins.doubles import Peer, answering, full_backlog, raw_server, sized

pytestmark = pytest.mark.anyio


SLOW_S = 0.3
"""For connections after which others overtake them."""


def dialer(
    *ports: int,
    context: ssl.SSLContext | None = None,
    resolve: Resolve | None = None,
    doubt: Callable[[str], object] = str,
    hangs_s: float = 0.2,
    name: str = "api.example",
) -> Dialer:
    """For a name whose addresses are these ports of loopback."""

    async def local(_: Origin) -> Sequence[tuple[int, Address]]:
        return [(socket.AF_INET, ("127.0.0.1", port)) for port in ports]

    scheme = "http" if context is None else "https"
    origin = origin_of(f"{scheme}://{name}", upstream="up")
    return Dialer(
        origin,
        context,
        connection,
        upstream="up",
        resolve=resolve or local,
        doubt=doubt,
        slow_s=SLOW_S,
        hangs_s=hangs_s,
    )


def certified(name: str) -> tuple[ssl.SSLContext, ssl.SSLContext]:
    """Return contexts of a server and of a client that trusts it."""
    authority = trustme.CA()
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert(name).configure_cert(server)  # pyright: ignore[reportUnknownMemberType]  pyOpenSSL is not here
    client = ssl.create_default_context()
    authority.configure_trust(client)  # pyright: ignore[reportUnknownMemberType]  as above
    return server, client


def connection() -> HttpConnection:
    deadlines = Deadlines()
    pool = Pool(dialer().dial, deadlines, upstream="up", maximum=1, idle_s=1.0)
    return HttpConnection("up", pool, deadlines, Limits())


async def test_an_address_that_refuses_leads_to_the_next() -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        async with raw_server(Peer.stay) as server:
            dialled = await dialer(unused.getsockname()[1], server.port).dial(soon())
            await server.until(lambda: len(server.connections) == 1)
            dialled.abort()


async def test_an_address_that_swallows_packets_costs_a_quarter_of_a_second_and_only_once() -> None:
    async with raw_server(Peer.stay) as server:
        with full_backlog() as silent:
            towards = dialer(silent, silent, silent, server.port)

            for _ in range(2):
                dialled = await asyncio.wait_for(towards.dial(soon(120.0)), 30.0)
                assert dialled.usable
                dialled.abort()


async def test_addresses_that_are_all_silent_fail_with_the_deadline() -> None:
    with full_backlog() as silent:
        with pytest.raises(UpstreamTimeout, match="no connection in time"):
            await dialer(silent, silent).dial(soon(0.6))


async def test_a_handshake_that_hangs_is_overtaken_by_a_second_connection() -> None:
    async def script(peer: Peer) -> None:
        if len(silent.connections) == 1:
            await peer.stay()
        else:
            await peer.tunnel(server.port)

    tls, context = certified("api.example")
    async with raw_server(Peer.stay, tls=tls) as server, raw_server(script) as silent:
        towards = dialer(silent.port, context=context)

        dialled = await asyncio.wait_for(towards.dial(soon(120.0)), 30.0)

        assert dialled.usable
        assert len(silent.connections) == 2
        await silent.connections[0].gone()
        dialled.abort()


async def test_a_name_that_ends_with_a_dot_has_the_certificate_of_the_one_without() -> None:
    """Such names keep resolvers from search domains, of which Kubernetes has four."""
    tls, context = certified("api.example")
    async with raw_server(Peer.stay, tls=tls) as server:
        towards = dialer(server.port, context=context, name="api.example.")

        dialled = await towards.dial(soon())

        assert dialled.usable
        dialled.abort()


async def test_a_dial_that_hangs_to_its_end_shortens_the_others_and_a_success_ends_that() -> None:
    async def resolve(_: Origin) -> Sequence[tuple[int, Address]]:
        return [(socket.AF_INET, ("127.0.0.1", places[0]))]

    async with raw_server(Peer.stay) as server:
        with full_backlog() as silent:
            places = [silent]
            towards = dialer(resolve=resolve)
            others = [asyncio.ensure_future(towards.dial(soon(120.0))) for _ in range(3)]

            with pytest.raises(UpstreamTimeout):
                await towards.dial(soon(0.3))
            for other in others:
                with pytest.raises(UpstreamTimeout):
                    await asyncio.wait_for(other, 30.0)

            with pytest.raises(UpstreamTimeout):
                await asyncio.wait_for(towards.dial(soon(120.0)), 30.0)

            places[0] = server.port
            (await asyncio.wait_for(towards.dial(soon(120.0)), 30.0)).abort()


async def test_while_dials_hang_one_that_no_request_waits_for_has_the_full_time() -> None:
    async def script(peer: Peer) -> None:
        if len(slow.connections) > 2:
            await asyncio.sleep(2 * SLOW_S)
            await peer.tunnel(server.port)
        await peer.stay()

    tls, context = certified("api.example")
    async with raw_server(Peer.stay, tls=tls) as server, raw_server(script) as slow:
        towards = dialer(slow.port, context=context)
        with pytest.raises(UpstreamTimeout):
            await towards.dial(soon(0.4))
        with pytest.raises(UpstreamTimeout):
            await towards.dial(soon(120.0))
        await server.until(lambda: len(server.connections) >= 1)
        await server.connections[0].gone()

        dialled = await asyncio.wait_for(towards.dial(soon(120.0)), 30.0)

        assert dialled.usable
        dialled.abort()


async def test_a_request_in_a_hurry_shortens_no_other_dial() -> None:
    with full_backlog() as silent:
        towards = dialer(silent, hangs_s=60.0)
        other = asyncio.ensure_future(towards.dial(soon(120.0)))
        await asyncio.sleep(0)

        with pytest.raises(UpstreamTimeout):
            await towards.dial(soon(0.4))

        await asyncio.sleep(0.1)
        assert not other.done()
        other.cancel()


async def test_a_failure_is_not_tried_a_second_time() -> None:
    tls, _ = certified("api.example")
    async with raw_server(Peer.stay, tls=tls) as server:
        with pytest.raises(UpstreamUnreachable, match="certificate"):
            await dialer(server.port, context=ssl.create_default_context()).dial(soon())
        assert len(server.connections) == 0  # none got past its handshake


async def test_a_dial_that_is_cancelled_closes_all_that_it_opened() -> None:
    _, context = certified("api.example")
    async with raw_server(Peer.stay) as server:
        dial = asyncio.ensure_future(dialer(server.port, context=context).dial(soon()))
        await server.until(lambda: len(server.connections) == 2)

        dial.cancel()

        for peer in server.connections:
            await peer.gone()
        with pytest.raises(asyncio.CancelledError):
            await dial


async def test_an_address_that_fails_is_doubted_and_a_name_that_fails_is_not() -> None:
    async def unknown(_: Origin) -> Sequence[tuple[int, Address]]:
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    doubted: list[str] = []
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        with pytest.raises(UpstreamUnreachable, match="no connection"):
            await dialer(unused.getsockname()[1], doubt=doubted.append).dial(soon())
    assert doubted == ["api.example"]
    with pytest.raises(UpstreamUnreachable, match=r"no address for api\.example"):
        await dialer(resolve=unknown, doubt=doubted.append).dial(soon())
    assert doubted == ["api.example"]


async def test_a_dial_says_that_the_dns_is_what_did_not_answer() -> None:
    async def silent(_: Origin) -> Sequence[tuple[int, Address]]:
        await asyncio.sleep(60.0)
        return []

    with pytest.raises(UpstreamTimeout, match="in time: the DNS has not returned its address"):
        await dialer(resolve=silent).dial(soon(0.05))


async def test_a_name_with_no_address_at_all_is_unreachable() -> None:
    with pytest.raises(UpstreamUnreachable, match=r"^up: no connection to api\.example port 80"):
        await dialer().dial(soon())


@pytest.mark.skipif(sys.platform != "linux", reason="/proc/net/tcp is Linux's")
async def test_a_silent_connection_is_probed() -> None:
    async def script(peer: Peer) -> None:
        ports.append(peer.client_port)
        await answering(sized(b"ok"))(peer)

    ports: list[int] = []
    async with raw_server(script) as server:
        transport = WireTransport(server.base_url, name="up")
        await fetch(transport)

        await server.until(lambda: _timer(ports[0], server.port) == KEEP_ALIVE)
        await transport.aclose()


@pytest.mark.skipif(sys.platform != "linux", reason="TCP_USER_TIMEOUT is Linux's")
async def test_what_is_sent_has_half_a_minute_at_most_to_be_acknowledged() -> None:
    class Noting(HttpConnection):
        def connection_made(self, transport: asyncio.BaseTransport) -> None:
            super().connection_made(transport)
            sock: socket.socket = transport.get_extra_info("socket")
            limits.append(sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT))

    def noting() -> HttpConnection:
        return Noting(
            "up",
            Pool(dialer().dial, Deadlines(), upstream="up", maximum=1, idle_s=1.0),
            Deadlines(),
            Limits(),
        )

    limits: list[int] = []
    async with raw_server(Peer.stay) as server:
        origin = origin_of(server.base_url, upstream="up")
        dialled = await Dialer(origin, None, noting, upstream="up").dial(soon())
        dialled.abort()
    assert len(limits) == 1
    assert 0 < limits[0] <= 30_000


KEEP_ALIVE = "02"


def _timer(local: int, remote: int) -> str | None:
    """Which timer runs for a connection: docs.kernel.org/networking/proc_net_tcp.html"""
    for line in Path("/proc/net/tcp").read_text().splitlines()[1:]:
        row = line.split()
        if row[1].endswith(f":{local:04X}") and row[2].endswith(f":{remote:04X}"):
            return row[5][:2]
    return None
