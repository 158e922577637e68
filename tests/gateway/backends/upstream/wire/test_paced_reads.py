"""A backend that sends as fast as it can does not keep the event loop from others."""

import asyncio

import pytest

from strowger_gateway.gateway.backends.upstream.wire.paced_reads import BUFFER_BYTES, SLICE
from tests.gateway.backends.upstream.wire.exchanging import OpenWire, post, soon
from tests.stand_ins.doubles import Peer, chunked, raw_server, sized

pytestmark = pytest.mark.anyio

HEAD = b"HTTP/1.1 200 OK\r\n"
COMMENTS = b":\n" * 2_000_000


class Taken:
    """A step that keeps what it is given."""

    def __init__(self) -> None:
        self.body = b""

    def __call__(self, piece: bytes) -> float | None:
        self.body += piece
        return soon()


class Turns:
    """What a step takes between two iterations of the event loop."""

    def __init__(self) -> None:
        self.taken = self.most = self.total = 0
        self._loop = asyncio.get_running_loop()
        self._handle = self._loop.call_soon(self._turn)

    def __call__(self, piece: bytes) -> float | None:
        self.taken += len(piece)
        self.total += len(piece)
        return soon()

    def stop(self) -> None:
        self._handle.cancel()

    def _turn(self) -> None:
        self.most = max(self.most, self.taken)
        self.taken = 0
        self._handle = self._loop.call_soon(self._turn)


async def test_one_iteration_of_the_loop_works_on_a_slice_of_a_flood(open_wire: OpenWire) -> None:
    async def flood(peer: Peer) -> None:
        await peer.request()
        await peer.send(sized(COMMENTS))

    async with raw_server(flood) as server:
        reply = await post(open_wire(server.base_url))
        turns = Turns()
        await reply.relay(turns, soon())
        rest = b""
        while piece := await reply.chunk(soon()):
            rest += piece
        turns.stop()
        await reply.aclose()

    assert turns.total + len(rest) == len(COMMENTS)
    assert turns.most <= BUFFER_BYTES + 2 * SLICE


@pytest.mark.parametrize("size", [SLICE, SLICE + 1, 300_000])
@pytest.mark.parametrize("relayed", [False, True])
@pytest.mark.parametrize("form", ["sized", "chunked", "until the end"])
async def test_a_long_read_arrives_whole_also_if_the_connection_ends_at_once(
    form: str, size: int, *, relayed: bool, open_wire: OpenWire
) -> None:
    body = bytes(range(256)) * (size // 256) + b"x" * (size % 256)
    whole = HEAD + b"connection: close\r\n\r\n" + body
    if form != "until the end":
        whole = sized(body) if form == "sized" else chunked(body[:7], body[7:])

    async def answer(peer: Peer) -> None:
        await peer.request()
        await peer.send(whole)

    async with raw_server(answer) as server:
        reply = await post(open_wire(server.base_url))
        got = b""
        if relayed:
            turns = Taken()
            await reply.relay(turns, soon())
            got = turns.body
        while piece := await reply.chunk(soon()):
            got += piece
        await reply.aclose()

    assert got == body


async def test_what_follows_an_answer_in_a_long_read_never_belongs_to_the_next(
    open_wire: OpenWire,
) -> None:
    requests = 0

    async def answer(peer: Peer) -> None:
        nonlocal requests
        while await peer.request():
            requests += 1
            await peer.send(sized(b"a" * 20_000) + sized(b"surplus" * 20_000))

    async with raw_server(answer) as server:
        transport = open_wire(server.base_url, max_connections=1)
        for _ in range(3):
            reply = await post(transport)
            assert await reply.body(soon(), 2**20) == b"a" * 20_000
            await reply.aclose()

    assert requests == 3
