"""Slots are handed over in the order of the queue, and only with live connections."""

import asyncio

import pytest

from strowger_gateway.gateway.backends.upstream.wire.connection import HttpConnection
from strowger_gateway.gateway.backends.upstream.wire.deadlines import Deadlines
from strowger_gateway.gateway.backends.upstream.wire.http_message import Limits
from strowger_gateway.gateway.backends.upstream.wire.pool import Pool
from strowger_gateway.schemas.errors import Unavailable
from strowger_gateway.schemas.holdings import ANONYMOUS
from tests.gateway.backends.upstream.wire.exchanging import Nowhere, soon

pytestmark = pytest.mark.anyio


class Rig:
    """A pool whose connections lead nowhere. hanging: dials do not end until it is set."""

    def __init__(self, maximum: int = 1) -> None:
        self.hanging: asyncio.Event | None = None
        self.cancelled = 0
        self.dialled: list[HttpConnection] = []
        deadlines = Deadlines()
        self._new = lambda: HttpConnection("up", self.pool, deadlines, Limits())
        self.pool = Pool(self.dial, deadlines, upstream="up", maximum=maximum, idle_s=60.0)

    async def dial(self, by: float) -> HttpConnection:
        if self.hanging is not None:
            try:
                await self.hanging.wait()
            except asyncio.CancelledError:
                self.cancelled += 1
                raise
        connection = self._new()
        connection.connection_made(Nowhere())
        self.dialled.append(connection)
        return connection

    async def queue(self) -> "asyncio.Future[HttpConnection]":
        """A waiter for a slot or for its connection."""
        waiting = asyncio.ensure_future(self.pool.acquire(soon()))
        await turns()
        return waiting


async def turns() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


async def test_a_request_whose_dial_hangs_takes_a_connection_that_becomes_idle() -> None:
    rig = Rig(maximum=8)
    first = await rig.pool.acquire(soon())
    rig.hanging = asyncio.Event()
    older, newer = await rig.queue(), await rig.queue()

    first.release()

    assert await older is first
    await turns()
    assert rig.cancelled == 1
    assert not newer.done()
    assert rig.pool.held == 2
    first.release()
    assert await newer is first
    first.release()
    assert rig.pool.held == 0
    assert rig.pool.take_idle(ANONYMOUS) is first


async def test_a_dial_that_ends_first_is_used_and_its_place_goes_to_no_other() -> None:
    rig = Rig(maximum=8)
    first = await rig.pool.acquire(soon())
    rig.hanging = asyncio.Event()
    waiting = await rig.queue()

    rig.hanging.set()
    second = await waiting
    first.release()

    assert second is rig.dialled[1]
    assert rig.pool.held == 1
    assert rig.pool.take_idle(ANONYMOUS) is first


async def test_a_connection_granted_to_a_request_that_is_cancelled_goes_to_the_next() -> None:
    rig = Rig(maximum=8)
    first = await rig.pool.acquire(soon())
    rig.hanging = asyncio.Event()
    leaving, staying = await rig.queue(), await rig.queue()

    first.release()
    leaving.cancel()

    assert await staying is first
    await turns()
    assert rig.cancelled == 2
    first.release()
    assert rig.pool.held == 0


async def test_requests_that_give_up_while_they_dial_leave_nothing_behind() -> None:
    rig = Rig(maximum=2)
    rig.hanging = asyncio.Event()
    leaving = [await rig.queue() for _ in range(2)]

    for one in leaving:
        one.cancel()
    await turns()

    assert rig.cancelled == 2
    assert rig.pool.held == 0


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
