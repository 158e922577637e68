"""Abandoning an exchange, at any stage, closes its connection."""

import asyncio

import pytest

from strowger_gateway.gateway.backends.upstream.transport import Reply
from strowger_gateway.schemas.errors import Unavailable
from tests.gateway.backends.upstream.wire.exchanging import Open, fetch, post, soon
from tests.stand_ins.doubles import SOON_S, Peer, Step, answering, chunked, raw_server, sized

pytestmark = pytest.mark.anyio

STAGES: dict[str, list[Step]] = {
    "before the head": [],
    "in the head": [b"HTTP/1.1 200 OK\r\ncontent-"],
    "before the body": [b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\n"],
    "in a sized body": [sized(b"hello")[:-1]],
    "between chunks": [chunked(b"hello")[:-5]],
}


async def test_cancelling_closes_the_socket_during_the_handshake(open_transport: Open) -> None:
    async with raw_server(Peer.stay) as server:
        transport = open_transport(server.base_url.replace("http", "https"), max_connections=1)

        for turn in range(2):
            exchange = asyncio.ensure_future(post(transport))
            await server.until(lambda turn=turn: len(server.connections) > turn)
            await _cancelled(exchange)

            await server.connections[turn].gone()


@pytest.mark.parametrize("stage", STAGES)
async def test_cancelling_closes_the_socket(stage: str, open_transport: Open) -> None:
    async def script(peer: Peer) -> None:
        await peer.request()
        await peer.play(*STAGES[stage])
        await peer.gone()
        gone.set()

    gone = asyncio.Event()
    async with raw_server(script) as server:
        transport = open_transport(server.base_url, max_connections=1)
        exchange = asyncio.ensure_future(fetch(transport))
        await server.until(lambda: len(server.requests) == 1)
        await asyncio.sleep(0.05)

        await _cancelled(exchange)

        async with asyncio.timeout(SOON_S):
            await gone.wait()


async def test_a_cancelled_read_has_closed_the_socket_before_anyone_closes_the_reply(
    open_transport: Open,
) -> None:
    async def script(peer: Peer) -> None:
        await peer.request()
        await peer.play(*STAGES["in a sized body"])
        await peer.gone()
        gone.set()

    gone = asyncio.Event()
    async with raw_server(script) as server:
        reply = await post(open_transport(server.base_url))
        await reply.chunk(soon())
        reading = asyncio.ensure_future(reply.chunk(soon()))
        await asyncio.sleep(0.02)

        await _cancelled(reading)

        async with asyncio.timeout(SOON_S):
            await gone.wait()
        await reply.aclose()


async def test_cancelling_closes_the_socket_while_the_request_is_still_on_its_way(
    open_transport: Open,
) -> None:
    async def script(peer: Peer) -> None:
        await peer.head()
        headed.set()
        await asyncio.sleep(0.05)
        await peer.gone()
        gone.set()

    headed, gone = asyncio.Event(), asyncio.Event()
    async with raw_server(script) as server:
        exchange = asyncio.ensure_future(fetch(open_transport(server.base_url), b"x" * 30_000_000))
        await headed.wait()

        await _cancelled(exchange)

        async with asyncio.timeout(SOON_S):
            await gone.wait()


async def test_cancelling_in_the_queue_costs_no_connection(open_transport: Open) -> None:
    async with raw_server(answering([sized(b"hello")[:-1], 0.2, b"o"])) as server:
        transport = open_transport(server.base_url, max_connections=1)
        holder = await post(transport)
        quitter = asyncio.ensure_future(post(transport))
        patient = asyncio.ensure_future(fetch(transport))
        await asyncio.sleep(0.02)

        await _cancelled(quitter)
        await holder.body(soon(), 100)
        await holder.aclose()

        assert await patient == b"hello"
        assert len(server.connections) == 1


async def test_closing_early_closes_the_socket(open_transport: Open) -> None:
    async def script(peer: Peer) -> None:
        await peer.request()
        await peer.play(*STAGES["between chunks"])
        await peer.gone()
        gone.set()

    gone = asyncio.Event()
    async with raw_server(script) as server:
        reply = await post(open_transport(server.base_url))
        await reply.chunk(soon())

        await reply.aclose()
        await reply.aclose()

        async with asyncio.timeout(SOON_S):
            await gone.wait()


async def test_closing_a_reply_wakes_its_reader(open_transport: Open) -> None:
    async with raw_server(answering([sized(b"hello")[:-1], 60])) as server:
        reply = await post(open_transport(server.base_url))
        await reply.chunk(soon())
        reading = asyncio.ensure_future(reply.chunk(soon(60)))
        await asyncio.sleep(0.02)

        await reply.aclose()

        done, _ = await asyncio.wait([reading], timeout=SOON_S / 2)
        assert done
        assert reading.exception() is not None


async def test_a_body_read_to_its_end_gives_its_connection_back_once(open_transport: Open) -> None:
    async with raw_server(answering(sized(b"hello"))) as server:
        transport = open_transport(server.base_url, max_connections=2)
        first = await post(transport)
        await first.body(soon(), 100)
        await first.aclose()
        second = await post(transport)

        await first.aclose()
        third = await post(transport)

        bodies = [await reply.body(soon(), 100) for reply in (second, third)]
        assert bodies == [b"hello", b"hello"]
        assert len(server.connections) == 2
        await second.aclose()
        await third.aclose()


async def test_closing_the_transport_closes_what_is_idle_and_lets_busy_exchanges_finish(
    open_transport: Open,
) -> None:
    async with raw_server(answering([sized(b"hello")[:-1], 0.1, b"o"])) as server:
        transport = open_transport(server.base_url)
        busy = await post(transport)

        await transport.aclose()

        assert await busy.body(soon(), 100) == b"hello"
        await busy.aclose()
        await server.connections[0].gone()
        with pytest.raises(Unavailable, match="being closed"):
            await post(transport)


async def _cancelled(task: "asyncio.Future[Reply] | asyncio.Future[bytes]") -> None:
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
