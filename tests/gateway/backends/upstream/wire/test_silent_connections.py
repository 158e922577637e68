"""Connections that die without a word: what else of their pool is not used any more."""

import asyncio

import pytest

from strowger_gateway.schemas.errors import UpstreamSilent
from tests.gateway.backends.upstream.wire.exchanging import OpenWire, fetch, post
from tests.stand_ins.doubles import Peer, raw_server, sized

pytestmark = pytest.mark.anyio


async def test_a_silent_connection_takes_idle_ones_of_its_age_with_it(open_wire: OpenWire) -> None:
    async def script(peer: Peer) -> None:
        while True:
            request = await peer.request()
            if request.body == b"silent":
                await peer.stay()
            await together.wait()
            await peer.send(sized(b"ok"))

    together = asyncio.Event()
    async with raw_server(script) as server:
        transport = open_wire(server.base_url)
        fetches = [asyncio.ensure_future(fetch(transport)) for _ in range(3)]
        await server.until(lambda: len(server.requests) == 3)
        together.set()
        await asyncio.gather(*fetches)
        await asyncio.sleep(0.01)

        with pytest.raises(UpstreamSilent):
            await post(transport, b"silent", head=0.2)

        for peer in server.connections:
            await peer.gone()
        assert await fetch(transport) == b"ok"
        assert len(server.connections) == 4


async def test_a_silent_connection_leaves_alone_those_that_have_answered_since(
    open_wire: OpenWire,
) -> None:
    """A request may be what is slow; then others show that the server is reached."""

    async def script(peer: Peer) -> None:
        while True:
            request = await peer.request()
            if request.body == b"silent":
                await peer.stay()
            await peer.send(sized(b"ok"))

    async with raw_server(script) as server:
        transport = open_wire(server.base_url)
        silent = asyncio.ensure_future(post(transport, b"silent", head=0.3))
        await server.until(lambda: len(server.requests) == 1)
        await fetch(transport)

        with pytest.raises(UpstreamSilent):
            await silent

        assert await fetch(transport) == b"ok"
        assert len(server.connections) == 2
