"""Slots are handed over in the order of the queue, and only with live connections."""

import asyncio

import pytest

from gateway.upstream.wire.connection import HttpConnection
from gateway.upstream.wire.deadlines import Deadlines
from gateway.upstream.wire.head import Limits
from gateway.upstream.wire.pool import Pool
from schemas.errors import Unavailable
from schemas.holdings import ANONYMOUS
from tests.gateway.upstream.transports.exchanging import Nowhere, soon

pytestmark = pytest.mark.anyio


class Rig:
    """A pool of one slot whose connections lead nowhere."""

    def __init__(self) -> None:
        self.dialled: list[HttpConnection] = []
        deadlines = Deadlines()
        self._new = lambda: HttpConnection("up", self.pool, deadlines, Limits())
        self.pool = Pool(self.dial, deadlines, upstream="up", maximum=1, idle_s=60.0)

    async def dial(self, by: float) -> HttpConnection:
        connection = self._new()
        connection.connection_made(Nowhere())
        self.dialled.append(connection)
        return connection

    async def queue(self) -> "asyncio.Future[HttpConnection]":
        """A waiter for the slot."""
        waiting = asyncio.ensure_future(self.pool.acquire(soon()))
        await asyncio.sleep(0)
        return waiting


async def test_a_connection_that_dies_while_it_is_handed_over_is_replaced() -> None:
    rig = Rig()
    first = await rig.pool.acquire(soon())
    waiting = await rig.queue()

    first.release()
    first.eof_received()

    second = await waiting
    assert second is not first
    assert second.usable
    assert len(rig.dialled) == 2


async def test_a_connection_that_lives_is_handed_on() -> None:
    rig = Rig()
    first = await rig.pool.acquire(soon())
    waiting = await rig.queue()

    first.release()

    assert await waiting is first
    assert len(rig.dialled) == 1


async def test_no_request_overtakes_the_queue() -> None:
    rig = Rig()
    first = await rig.pool.acquire(soon())
    waiting = await rig.queue()

    first.release()
    newcomer = await rig.queue()

    assert rig.pool.take_idle(ANONYMOUS) is None
    assert await waiting is first
    assert not newcomer.done()
    first.release()
    assert await newcomer is first


async def test_closing_rejects_waiters() -> None:
    rig = Rig()
    await rig.pool.acquire(soon())
    waiting = await rig.queue()

    rig.pool.close()

    with pytest.raises(Unavailable, match="being closed"):
        await waiting
