"""Every wait ends at its deadline, whatever the server does in the meantime."""

import asyncio

import pytest

from strowger_gateway.gateway.backends.upstream.own_limits import ConnectionsInUse
from strowger_gateway.schemas.errors import UpstreamTimeout
from tests.gateway.backends.upstream.wire.exchanging import Open, fetch, post, soon
from tests.stand_ins.doubles import SOON_S, Peer, answering, full_backlog, raw_server, sized

pytestmark = pytest.mark.anyio

PATIENCE_S = SOON_S / 2
"""Far above every deadline here, far below what a missed one would take."""


async def silence(peer: Peer) -> None:
    await peer.stay()


async def deaf(peer: Peer) -> None:
    await peer.request()
    await peer.stay()


async def test_a_handshake_that_never_happens_ends_at_the_connect_deadline(
    open_transport: Open,
) -> None:
    async with raw_server(silence) as server:
        transport = open_transport(server.base_url.replace("http", "https"), max_connections=1)

        for _ in range(2):
            with pytest.raises(UpstreamTimeout, match=r"^up: no connection in time \("):
                await asyncio.wait_for(post(transport, connect=0.15), PATIENCE_S)

        for peer in server.connections:
            await peer.gone()


async def test_a_connection_that_is_not_accepted_ends_at_the_connect_deadline(
    open_transport: Open,
) -> None:
    with full_backlog() as port:
        transport = open_transport(f"http://127.0.0.1:{port}")

        with pytest.raises(UpstreamTimeout, match="no connection in time"):
            await asyncio.wait_for(post(transport, connect=0.15), PATIENCE_S)


async def test_an_answer_that_does_not_begin_ends_at_the_head_deadline(
    open_transport: Open,
) -> None:
    async with raw_server(deaf) as server:
        transport = open_transport(server.base_url)

        with pytest.raises(UpstreamTimeout, match="up: the answer did not begin in time"):
            await asyncio.wait_for(post(transport, head=0.15), PATIENCE_S)

        await server.connections[0].gone()


async def test_a_head_that_trickles_ends_at_the_head_deadline(open_transport: Open) -> None:
    async def script(peer: Peer) -> None:
        await peer.request()
        await peer.send(b"HTTP/1.1 200 OK\r\n")
        for i in range(1000):
            await peer.send(f"x-{i}: 1\r\n".encode())
            await asyncio.sleep(0.01)

    async with raw_server(script) as server:
        transport = open_transport(server.base_url)

        with pytest.raises(UpstreamTimeout):
            await asyncio.wait_for(post(transport, head=0.2), PATIENCE_S)


async def test_a_stalled_body_ends_at_the_chunk_deadline(open_transport: Open) -> None:
    async with raw_server(answering([sized(b"hello")[:-1], 60])) as server:
        reply = await post(open_transport(server.base_url))
        first = await reply.chunk(soon())

        with pytest.raises(UpstreamTimeout, match="up: the answer stalled"):
            await asyncio.wait_for(reply.chunk(soon(0.15)), PATIENCE_S)
        with pytest.raises(UpstreamTimeout):
            await reply.chunk(soon())

        assert first == b"hell"
        await reply.aclose()


async def test_bytes_that_trickle_do_not_move_a_deadline(open_transport: Open) -> None:
    async def script(peer: Peer) -> None:
        await peer.request()
        await peer.send(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n")
        for _ in range(2000):
            await peer.send(b"1\r\nx\r\n")
            await asyncio.sleep(0.005)

    async with raw_server(script) as server:
        transport = open_transport(server.base_url)
        streamed, whole = await post(transport), await post(transport)
        total = soon(0.25)

        async def read() -> None:
            while await streamed.chunk(total):
                pass

        with pytest.raises(UpstreamTimeout):
            await asyncio.wait_for(read(), PATIENCE_S)
        with pytest.raises(UpstreamTimeout):
            await asyncio.wait_for(whole.body(soon(0.1), 10_000), PATIENCE_S)
        await streamed.aclose()
        await whole.aclose()


async def test_bytes_that_wait_do_not_excuse_a_deadline_that_has_passed(
    open_transport: Open,
) -> None:
    async with raw_server(answering(sized(b"hello"))) as server:
        transport = open_transport(server.base_url)
        reply = await post(transport)
        await asyncio.sleep(0.05)

        with pytest.raises(UpstreamTimeout):
            await reply.chunk(soon(-0.01))
        with pytest.raises(UpstreamTimeout):
            await reply.chunk(soon())
        await reply.aclose()

        assert await fetch(transport) == b"hello"


async def test_chunk_extensions_that_trickle_do_not_move_a_deadline(open_transport: Open) -> None:
    async def script(peer: Peer) -> None:
        await peer.request()
        await peer.send(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n5;a=")
        for _ in range(1000):
            await peer.send(b"b")
            await asyncio.sleep(0.01)

    async with raw_server(script) as server:
        reply = await post(open_transport(server.base_url))

        with pytest.raises(UpstreamTimeout):
            await asyncio.wait_for(reply.chunk(soon(0.2)), PATIENCE_S)
        await reply.aclose()


async def test_a_request_whose_time_is_over_is_not_sent(open_transport: Open) -> None:
    async with raw_server(answering(sized(b"ok"))) as server:
        transport = open_transport(server.base_url, max_connections=1)
        await fetch(transport)

        with pytest.raises(UpstreamTimeout):
            await post(transport, connect=-1.0, head=-1.0)

        assert await fetch(transport) == b"ok"
        assert len(server.requests) == 2


async def test_a_full_pool_is_named_when_it_costs_the_connect_deadline(
    open_transport: Open,
) -> None:
    async with raw_server(answering([sized(b"hello")[:-1], 60])) as server:
        transport = open_transport(server.base_url, max_connections=1)
        reply = await post(transport)

        with pytest.raises(ConnectionsInUse, match="all connections to this provider are in use"):
            await asyncio.wait_for(post(transport, connect=0.15), PATIENCE_S)
        await reply.aclose()

        follower = await post(transport)
        await follower.aclose()
        assert len(server.connections) == 2


async def test_a_deadline_that_was_kept_never_comes_back(open_transport: Open) -> None:
    async with raw_server(answering(sized(b"ok"), [1.3, sized(b"late")])) as server:
        transport = open_transport(server.base_url)
        reply = await post(transport, connect=1.0, head=1.0)
        await reply.body(soon(1.0), 10)
        await reply.aclose()

        body = await fetch(transport)

        assert body == b"late"
        assert len(server.connections) == 1
