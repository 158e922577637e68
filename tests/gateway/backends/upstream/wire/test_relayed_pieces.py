"""Pieces of a body that are handed to a step as they arrive, without waking who asked for them."""

import asyncio

import pytest

from strowger_gateway.gateway.backends.upstream.transport import Reply, Step
from strowger_gateway.schemas.errors import UpstreamBroken, UpstreamTimeout
from tests.gateway.backends.upstream.wire.exchanging import Open, post, soon
from tests.stand_ins.doubles import SOON_S, Peer, answering, chunked, raw_server, sized

pytestmark = pytest.mark.anyio

HEAD = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n"
END = b"0\r\n\r\n"


class Taken:
    """A step that keeps what it is given, and wants no more after `most` bytes."""

    def __init__(self, most: int = 2**30) -> None:
        self.body = b""
        self.begun = asyncio.Event()
        self._most = most

    def __call__(self, piece: bytes) -> float | None:
        self.body += piece
        self.begun.set()
        return soon() if len(self.body) < self._most else None


async def to_the_end(reply: Reply, step: Step, by: float) -> None:
    """Raises what ends the body, from whichever call."""
    await reply.relay(step, by)
    await reply.chunk(soon())


async def rest(reply: Reply) -> bytes:
    body = b""
    while piece := await reply.chunk(soon()):
        body += piece
    return body


@pytest.mark.parametrize("body", [b"hello world", b"x" * 500_000], ids=["short", "long"])
async def test_a_step_gets_the_whole_body_and_the_connection_serves_again(
    body: bytes, open_transport: Open
) -> None:
    async with raw_server(answering(sized(body), sized(b"more"))) as server:
        transport = open_transport(server.base_url, max_connections=1)
        taken = Taken()

        reply = await post(transport)
        await reply.relay(taken, soon())
        left = await rest(reply)
        await reply.aclose()
        second = await post(transport)

        assert taken.body + left == body
        assert await second.body(soon(), 100) == b"more"
        assert len(server.connections) == 1
        await second.aclose()


async def test_what_a_step_does_not_want_waits_for_the_next_read(open_transport: Open) -> None:
    pieces = [b"%d" % number * 50_000 for number in range(10)]
    async with raw_server(answering(chunked(*pieces))) as server:
        taken = Taken(60_000)

        reply = await post(open_transport(server.base_url))
        await reply.relay(taken, soon())
        left = await rest(reply)
        await reply.aclose()

        assert 60_000 <= len(taken.body) < 500_000
        assert taken.body + left == b"".join(pieces)


async def test_relaying_goes_on_after_a_pause(open_transport: Open) -> None:
    pieces = [b"%d" % number * 50_000 for number in range(10)]
    async with raw_server(answering(chunked(*pieces))) as server:
        reply = await post(open_transport(server.base_url))
        body = b""
        while True:
            taken = Taken(30_000)
            await reply.relay(taken, soon())
            body += taken.body
            if not taken.body:
                break
        left = await rest(reply)
        await reply.aclose()

        assert body + left == b"".join(pieces)


async def test_what_a_step_raises_reaches_who_asked_and_ends_the_connection(
    open_transport: Open,
) -> None:
    async def script(peer: Peer) -> None:
        await peer.request()
        await peer.send(HEAD + b"5\r\nhello\r\n")
        await peer.gone()
        gone.set()

    def step(piece: bytes) -> float | None:
        raise UpstreamBroken(f"cannot read {piece!r}", upstream="up")

    gone = asyncio.Event()
    async with raw_server(script) as server:
        reply = await post(open_transport(server.base_url))

        with pytest.raises(UpstreamBroken, match="hello"):
            await reply.relay(step, soon())
        await reply.aclose()

        async with asyncio.timeout(SOON_S):
            await gone.wait()


async def test_what_a_step_raised_is_not_raised_by_the_next_exchange(open_transport: Open) -> None:
    async def script(peer: Peer) -> None:
        for _ in range(2):
            await peer.request()
            await peer.send(HEAD)
            await asyncio.sleep(0.05)
            await peer.send(b"5\r\nhello\r\n" + END)

    def step(piece: bytes) -> float | None:
        raise UpstreamBroken("cannot read it", upstream="up")

    async with raw_server(script) as server:
        transport, taken = open_transport(server.base_url, max_connections=1), Taken()
        first = await post(transport)
        with pytest.raises(UpstreamBroken, match="cannot read it"):
            await first.relay(step, soon())
        assert await rest(first) == b""
        await first.aclose()

        second = await post(transport)
        await second.relay(taken, soon())
        await second.aclose()

    assert taken.body == b"hello"
    assert len(server.connections) == 1


async def test_each_piece_moves_the_deadline_and_silence_ends_it(open_transport: Open) -> None:
    async def script(peer: Peer) -> None:
        await peer.request()
        await peer.send(HEAD)
        for _ in range(8):
            await peer.send(b"1\r\nx\r\n")
            await asyncio.sleep(0.1)
        await peer.gone()

    seen: list[bytes] = []

    def step(piece: bytes) -> float | None:
        seen.append(piece)
        return soon(0.6)

    async with raw_server(script) as server:
        reply = await post(open_transport(server.base_url))

        with pytest.raises(UpstreamTimeout, match="stalled"):
            await to_the_end(reply, step, soon(0.6))
        await reply.aclose()

    assert b"".join(seen) == b"x" * 8


@pytest.mark.parametrize("end", ["close", "reset"])
async def test_a_body_that_is_cut_is_broken(end: str, open_transport: Open) -> None:
    async def script(peer: Peer) -> None:
        await peer.request()
        await peer.send(HEAD + b"5\r\nhello\r\n")
        await asyncio.sleep(0.05)
        await peer.play("close" if end == "close" else "reset")

    taken = Taken()
    async with raw_server(script) as server:
        reply = await post(open_transport(server.base_url))

        with pytest.raises(UpstreamBroken):
            await to_the_end(reply, taken, soon())
        await reply.aclose()

    assert taken.body == b"hello"


async def test_cancelling_closes_the_socket_and_the_step_gets_no_more(
    open_transport: Open,
) -> None:
    async def script(peer: Peer) -> None:
        await peer.request()
        await peer.send(HEAD + b"5\r\nhello\r\n")
        await peer.gone()
        gone.set()

    gone, taken = asyncio.Event(), Taken()
    async with raw_server(script) as server:
        reply = await post(open_transport(server.base_url))
        relaying = asyncio.ensure_future(reply.relay(taken, soon()))
        async with asyncio.timeout(SOON_S):
            await taken.begun.wait()

        relaying.cancel()
        with pytest.raises(asyncio.CancelledError):
            await relaying
        await reply.aclose()

        async with asyncio.timeout(SOON_S):
            await gone.wait()
    assert taken.body == b"hello"
