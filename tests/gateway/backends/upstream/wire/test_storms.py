"""After any mix of failures, cancellations and successes every slot is free again.

Our own client alone: anyio's connect_tcp, below httpx, loses sight of a socket that connects in
the very moment it is cancelled, and leaves it to the garbage collector.
"""

import asyncio
import random

import pytest

from strowger_gateway.gateway.backends.upstream.transport import Transport
from strowger_gateway.schemas.errors import UpstreamError
from tests.gateway.backends.upstream.wire.exchanging import OpenWire, fetch, post, soon
from tests.stand_ins.doubles import Peer, Step, chunked, raw_server, sized

pytestmark = pytest.mark.anyio

MAXIMUM = 8
MOODS: list[list[Step]] = [
    [sized(b"fine")],
    [sized(b"fine")],
    [chunked(b"fi", b"ne")],
    [sized(b"fine"), "close"],
    [0.005, sized(b"fine")],
    [chunked(b"fi")[:-5], 0.005, "reset"],
    ["reset"],
    ["close"],
    [b"HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\nfi", 0.01, b"ne"],
    [sized(b"fine"), b"surplus"],
    [0.05, sized(b"fine")],
    [b"garbage\r\n\r\n"],
]


@pytest.mark.parametrize("seed", range(3))
async def test_a_storm_leaves_every_slot_usable_and_nothing_mixed_up(
    seed: int, open_wire: OpenWire
) -> None:
    dice = random.Random(seed)

    async def script(peer: Peer) -> None:
        while True:
            request = await peer.request()
            if request.body == b"calm":
                await peer.send(sized(b"calm"))
            else:
                await peer.play(*dice.choice(MOODS))

    async with raw_server(script) as server:
        transport = open_wire(server.base_url, max_connections=MAXIMUM)
        storm = [asyncio.ensure_future(_exchange(transport, dice)) for _ in range(300)]

        for task in dice.sample(storm, 100):
            await asyncio.sleep(0.001)
            task.cancel()
        outcomes = await asyncio.gather(*storm, return_exceptions=True)

        expected = (bytes, UpstreamError, asyncio.CancelledError)
        assert all(isinstance(outcome, expected) for outcome in outcomes), outcomes
        assert {o for o in outcomes if isinstance(o, bytes)} <= {b"fine", b"fi", b""}
        await _all_slots_are_free(transport)


async def _exchange(transport: Transport, dice: random.Random) -> bytes:
    """An exchange that its caller may leave in the middle."""
    reply = await post(transport, b"storm", head=dice.choice([0.02, 5.0]), connect=5.0)
    try:
        if dice.random() < 0.3:
            return await reply.chunk(soon(dice.choice([0.005, 5.0])))
        return await reply.body(soon(), 100)
    finally:
        await reply.aclose()


async def _all_slots_are_free(transport: Transport) -> None:
    """More concurrent exchanges than there are slots."""
    async with asyncio.timeout(60):
        for _ in range(3):
            bodies: set[bytes] = set()
            while bodies != {b"calm"}:  # a connection that a mood left to die may still do so
                found = await asyncio.gather(
                    *[fetch(transport, b"calm") for _ in range(MAXIMUM)], return_exceptions=True
                )
                bodies = {one if isinstance(one, bytes) else b"" for one in found}
        replies = await asyncio.gather(
            *[post(transport, b"calm", connect=1.0) for _ in range(MAXIMUM)]
        )
        for reply in replies:
            await reply.body(soon(), 100)
            await reply.aclose()
