"""Our own HTTP client beyond Transport: its pool, its one retry, its back-pressure."""

import asyncio

import pytest

from strowger_gateway.schemas.errors import UpstreamBroken, UpstreamError
from tests.gateway.backends.upstream.wire.exchanging import OpenWire, fetch, post, soon
from tests.stand_ins.doubles import SOON_S, Peer, answering, chunked, raw_server, sized

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize("how", ["close", "reset"])
async def test_a_request_that_crosses_the_servers_close_is_sent_again_unseen(
    how: str, open_wire: OpenWire
) -> None:
    async def script(peer: Peer) -> None:
        if peer is not server.connections[0]:
            await answering(sized(b"ok"))(peer)
        await peer.request()
        await peer.send(sized(b"first"))
        await peer.request()
        if how == "reset":
            peer.reset()

    async with raw_server(script) as server:
        transport = open_wire(server.base_url, max_connections=1)
        await fetch(transport)

        body = await fetch(transport, b"once")

        assert body == b"ok"
        assert len(server.connections) == 2
        assert server.connections[1].requests[0].body == b"once"


async def test_a_request_is_sent_again_only_once(open_wire: OpenWire) -> None:
    async def script(peer: Peer) -> None:
        await peer.request()
        if peer is server.connections[0]:
            await peer.send(sized(b"first"))
            await peer.request()

    async with raw_server(script) as server:
        transport = open_wire(server.base_url, max_connections=1)
        await fetch(transport)

        with pytest.raises(UpstreamBroken, match="without an answer"):
            await fetch(transport)

        assert len(server.connections) == 2


async def test_a_request_on_a_fresh_connection_is_never_sent_again(open_wire: OpenWire) -> None:
    async with raw_server(answering(["close"])) as server:
        with pytest.raises(UpstreamBroken, match="without an answer"):
            await fetch(open_wire(server.base_url))

        assert len(server.connections) == 1


async def test_a_request_whose_answer_had_begun_is_never_sent_again(open_wire: OpenWire) -> None:
    async with raw_server(answering(sized(b"ok"), [b"H", "close"])) as server:
        transport = open_wire(server.base_url)
        await fetch(transport)

        with pytest.raises(UpstreamBroken):
            await fetch(transport)

        assert len(server.connections) == 1


async def test_a_request_that_a_server_took_time_over_is_never_sent_again(
    open_wire: OpenWire,
) -> None:
    async with raw_server(answering(sized(b"ok"), [1.2, "close"])) as server:
        transport = open_wire(server.base_url)
        await fetch(transport)

        with pytest.raises(UpstreamBroken, match="without an answer"):
            await fetch(transport)

        assert len(server.connections) == 1


async def test_an_idle_connection_that_the_server_closed_is_not_used(open_wire: OpenWire) -> None:
    async with raw_server(answering([sized(b"ok"), "close"])) as server:
        transport = open_wire(server.base_url, max_connections=1)

        for _ in range(3):
            await fetch(transport)
            await asyncio.sleep(0.02)

        assert [len(peer.requests) for peer in server.connections] == [1, 1, 1]


@pytest.mark.parametrize("surplus", [b"garbage", b"\r\n", sized(b"poison"), b"HTTP/1.1 200 OK\r\n"])
@pytest.mark.parametrize("later", [False, True], ids=["in one packet", "later"])
async def test_bytes_after_an_answer_never_become_the_next_answer(
    surplus: bytes, later: bool, open_wire: OpenWire
) -> None:
    answer = sized(b"ok") if later else sized(b"ok") + surplus
    async with raw_server(answering(answer)) as server:
        transport = open_wire(server.base_url, max_connections=1)

        bodies: list[bytes] = []
        for _ in range(3):
            bodies.append(await fetch(transport))
            if later:
                await server.connections[-1].send(surplus)
                await server.connections[-1].gone()

        assert bodies == [b"ok"] * 3


async def test_an_idle_connection_is_closed_when_its_time_is_over(open_wire: OpenWire) -> None:
    async with raw_server(answering(sized(b"ok"))) as server:
        transport = open_wire(server.base_url, idle_s=0.1)
        await fetch(transport)

        await server.connections[0].gone()

        assert await fetch(transport) == b"ok"
        assert len(server.connections) == 2


async def test_the_connection_used_last_is_used_next(open_wire: OpenWire) -> None:
    async with raw_server(answering(sized(b"ok"))) as server:
        transport = open_wire(server.base_url)
        await asyncio.gather(*[fetch(transport) for _ in range(3)])

        for _ in range(5):
            await fetch(transport)

        assert sorted(len(peer.requests) for peer in server.connections) == [1, 1, 6]


async def test_exchanges_over_the_limit_wait_and_are_served_in_order(open_wire: OpenWire) -> None:
    async with raw_server(answering([0.01, sized(b"ok")])) as server:
        transport = open_wire(server.base_url, max_connections=2)
        names = [str(i).encode() for i in range(20)]

        await asyncio.gather(*[fetch(transport, name) for name in names])

        assert len(server.connections) == 2
        for peer in server.connections:
            assert [int(r.body) for r in peer.requests] == sorted(
                int(r.body) for r in peer.requests
            )
        assert sorted(int(request.body) for request in server.requests) == list(range(20))


async def test_a_waiter_gets_the_slot_of_an_exchange_that_failed(open_wire: OpenWire) -> None:
    async with raw_server(answering([0.02, "reset"])) as server:
        transport = open_wire(server.base_url, max_connections=1)

        outcomes = await asyncio.gather(
            *[fetch(transport) for _ in range(5)], return_exceptions=True
        )

        assert all(isinstance(outcome, UpstreamError) for outcome in outcomes)
        assert len(server.connections) == 5


async def test_a_waiter_cancelled_in_the_moment_of_its_turn_passes_it_on(
    open_wire: OpenWire,
) -> None:
    async with raw_server(answering([sized(b"ok")])) as server:
        transport = open_wire(server.base_url, max_connections=1)
        for finish in (True, False):  # the turn comes with a connection, or with a free slot
            holder = await post(transport)
            if finish:
                assert await holder.chunk(soon()) == b"ok"
            quitter = asyncio.ensure_future(post(transport))
            await asyncio.sleep(0.01)

            await holder.aclose()
            quitter.cancel()
            with pytest.raises(asyncio.CancelledError):
                await quitter

            assert await asyncio.wait_for(fetch(transport), SOON_S) == b"ok"


async def test_a_reader_that_does_not_read_stalls_the_server_and_loses_nothing(
    open_wire: OpenWire,
) -> None:
    total = 50_000_000
    piece = bytes(range(256)) * 256

    async def script(peer: Peer) -> None:
        await peer.request()
        await peer.send(b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n" % total)
        for start in range(0, total, len(piece)):
            await peer.send(piece[: total - start])
        await peer.stay()

    async with raw_server(script) as server:
        reply = await post(open_wire(server.base_url))
        before = -1
        while before != server.connections[0].sent:
            before = server.connections[0].sent
            await asyncio.sleep(0.2)

        stalled_at = server.connections[0].sent
        first = await reply.chunk(soon())
        size = len(first)
        while data := await reply.chunk(soon()):
            size += len(data)
        await reply.aclose()

        # what was sent beyond our own buffer is in the kernel's
        assert stalled_at < total / 2
        assert len(first) <= 1_000_000
        assert size == total


async def test_an_early_answer_does_not_wait_for_the_request_and_costs_the_connection(
    open_wire: OpenWire,
) -> None:
    async def script(peer: Peer) -> None:
        await peer.head()
        await peer.send(sized(b"too large", "413 Content Too Large"))
        await asyncio.sleep(0.2)
        await peer.gone()

    async with raw_server(script) as server:
        transport = open_wire(server.base_url, max_connections=1)
        reply = await post(transport, b"x" * 50_000_000)

        body = await reply.body(soon(), 100)
        await reply.aclose()

        assert (reply.status, body) == (413, b"too large")
        await server.connections[0].gone()


async def test_what_is_not_http_fails_at_its_first_bytes(open_wire: OpenWire) -> None:
    async with raw_server(answering(b"<!DOCTYPE html>")) as server:
        with pytest.raises(UpstreamBroken, match=r"not HTTP/1\.1"):
            await post(open_wire(server.base_url), head=60.0)


async def test_a_server_of_http_1_0_may_keep_its_connections(open_wire: OpenWire) -> None:
    answer = b"HTTP/1.0 200 OK\r\nconnection: keep-alive\r\ncontent-length: 5\r\n\r\nhello"
    async with raw_server(answering(answer)) as server:
        transport = open_wire(server.base_url)

        bodies = [await fetch(transport) for _ in range(3)]

        assert bodies == [b"hello"] * 3
        assert len(server.connections) == 1


async def test_trailers_without_end_are_refused(open_wire: OpenWire) -> None:
    endless = chunked(b"hello")[:-2] + b"x-trailer: " + b"a" * 200_000
    async with raw_server(answering([endless])) as server:
        reply = await post(open_wire(server.base_url))
        first = await reply.chunk(soon())

        with pytest.raises(UpstreamBroken, match="over 65536 bytes"):
            await reply.chunk(soon(60.0))

        assert first == b"hello"
        await reply.aclose()
