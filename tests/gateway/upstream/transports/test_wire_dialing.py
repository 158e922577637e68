"""Dialing: choice among a name's addresses, and socket options."""

import asyncio
import socket
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from gateway.upstream.origin import Origin, origin_of
from gateway.upstream.wire import WireTransport
from gateway.upstream.wire.connection import HttpConnection
from gateway.upstream.wire.deadlines import Deadlines
from gateway.upstream.wire.dialing import Address, Dialer
from gateway.upstream.wire.head import Limits
from gateway.upstream.wire.pool import Pool
from schemas.errors import UpstreamTimeout, UpstreamUnreachable
from tests.gateway.upstream.transports.exchanging import fetch, soon
from tests.stand_ins.doubles import Peer, answering, full_backlog, raw_server, sized

pytestmark = pytest.mark.anyio


def dialer(*ports: int) -> Dialer:
    """For a name whose addresses are these ports of loopback."""

    async def resolve(_: Origin) -> Sequence[tuple[int, Address]]:
        return [(socket.AF_INET, ("127.0.0.1", port)) for port in ports]

    origin = origin_of("http://api.example", upstream="up")
    return Dialer(origin, None, connection, upstream="up", resolve=resolve)


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


async def test_an_address_that_swallows_packets_costs_half_the_time_and_only_once() -> None:
    async with raw_server(Peer.stay) as server:
        with full_backlog() as silent:
            towards = dialer(silent, server.port)

            first = await towards.dial(soon(2.0))
            second = await asyncio.wait_for(towards.dial(soon(60.0)), 20.0)

            assert first.usable
            assert second.usable
            first.abort()
            second.abort()


async def test_the_last_address_fails_with_the_deadline_and_not_with_its_share() -> None:
    with full_backlog() as silent:
        with pytest.raises(UpstreamTimeout, match="no connection in time"):
            await dialer(silent, silent).dial(soon(0.2))


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


KEEP_ALIVE = "02"


def _timer(local: int, remote: int) -> str | None:
    """Which timer runs for a connection: docs.kernel.org/networking/proc_net_tcp.html"""
    for line in Path("/proc/net/tcp").read_text().splitlines()[1:]:
        row = line.split()
        if row[1].endswith(f":{local:04X}") and row[2].endswith(f":{remote:04X}"):
            return row[5][:2]
    return None
